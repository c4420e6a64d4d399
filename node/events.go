package node

import (
	"shardway/admin/api"
	"shardway/event"
)

// Events returns the ring buffer of events of this node.
func (n *Node) Events() *event.Ring { return n.events }

// newEvents creates the ring buffer of events of this process.
func (n *Node) newEvents() *event.Ring {
	return event.NewRing(event.Options{Node: string(n.self), RunID: n.nonce, Stamp: func() event.Stamp {
		at := event.Stamp{Boot: n.agent.boot.Load(), Epoch: uint64(n.router.State().Committed().Epoch())}
		select {
		case <-n.raftOpen:
			at.Term = n.raft.Term()
		default:
		}
		return at
	}})
}

// Moves returns the most recent moves of a shard between nodes, oldest first.
func (n *Node) Moves(shard uint32) []api.Move { return n.fsm.moves.Of(shard) }
