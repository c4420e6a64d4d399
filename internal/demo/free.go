package demo

import (
	"context"
	"net"
)

// portFree returns a function that reports whether nobody has a port, by taking
// it for TCP and UDP (gossip needs both) and giving it back. Another may take it
// before the node does: then the node says so.
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
