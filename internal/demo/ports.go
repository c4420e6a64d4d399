package demo

import (
	"context"
	"net"
)

// portFree returns a function that reports whether a port is free. The function listens on the port with
// TCP and UDP, because gossip needs both, and closes it again. If another process takes the port
// afterwards, the node reports that.
func portFree(ctx context.Context) func(port int) bool {
	var lc net.ListenConfig
	return func(port int) bool {
		ln, err := lc.Listen(ctx, "tcp", addr(port))
		if err != nil {
			return false
		}
		defer func() { _ = ln.Close() }() // nothing was ever accepted
		pc, err := lc.ListenPacket(ctx, "udp", addr(port))
		if err != nil {
			return false
		}
		return pc.Close() == nil
	}
}
