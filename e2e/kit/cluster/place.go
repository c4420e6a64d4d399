//go:build linux

package cluster

import (
	"fmt"

	"shardway/e2e/kit/netns"
)

// place is where a node and its app run: on the machine's loopback, or in a
// network namespace of their own.
type place struct {
	host *netns.Host // nil: loopback
}

// command is the command line that runs args here.
func (p place) command(args ...string) []string {
	if p.host == nil {
		return args
	}
	return p.host.Command(args...)
}

// data is the address on which the nodes talk to each other.
func (p place) data(port int) string {
	if p.host == nil {
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	return fmt.Sprintf("%s:%d", p.host.Data, port)
}

// control is the address that the test uses. It is never cut.
func (p place) control(port int) string {
	if p.host == nil {
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	return fmt.Sprintf("%s:%d", p.host.Control, port)
}
