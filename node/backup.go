package node

import (
	"fmt"

	"shardway/admin/api"
)

// Backup returns the replicated state, as far as this node has applied it, as a
// file. Any node's will do, and an old one too: what is restored from it begins
// above all that came after it.
func (n *Node) Backup() ([]byte, error) {
	s := n.fsm.state.Load()
	if !s.Bootstrapped() {
		return nil, fmt.Errorf("%w: node %q belongs to no cluster yet", api.ErrRefused, n.self)
	}
	return s.Backup()
}
