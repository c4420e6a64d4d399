//go:build linux

package cluster

import (
	"fmt"

	"shardway/e2e/kit/netns"
)

// location is where a node and its app run: on the loopback of the machine, or in their own
// network namespace.
type location struct {
	host *netns.Host // nil means loopback
}

// command returns the command line that runs args at this place.
func (p location) command(args ...string) []string {
	if p.host == nil {
		return args
	}
	return p.host.Command(args...)
}

// dataAddr returns the address for traffic between nodes.
func (p location) dataAddr(port int) string {
	if p.host == nil {
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	return fmt.Sprintf("%s:%d", p.host.Data, port)
}

// controlAddr returns the address for the test. Network faults never affect it.
func (p location) controlAddr(port int) string {
	if p.host == nil {
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	return fmt.Sprintf("%s:%d", p.host.Control, port)
}
