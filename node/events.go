package node

import (
	"shardway/admin/api"
	"shardway/event"
)

// Events returns the ring buffer of events of this node.
func (n *Node) Events() *event.Ring { return n.events }

// Moves returns the most recent moves of a shard between nodes, oldest first.
func (n *Node) Moves(shard uint32) []api.Move { return n.fsm.moves.Of(shard) }
