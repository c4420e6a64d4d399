package node

import (
	"time"

	"shardway/admin/api"
	"shardway/event"
	"shardway/node/consensus"
	"shardway/node/gossip"
)

// Events returns the ring buffer of events of this node.
func (n *Node) Events() *event.Ring { return n.events }

// Moves returns the most recent moves of a shard between nodes, oldest first.
func (n *Node) Moves(shard uint32) []api.Move { return n.fsm.moves.Of(shard) }

// ApplyWebhook replaces the URL to which the node sends its events; empty means none. The settings have been checked.
func (n *Node) ApplyWebhook(target string) {
	if err := n.webhook.SetURL(target); err != nil {
		n.log.Warn().Err(err).Msg("webhook not changed")
	}
}

// onSnapshot is called when a snapshot of this size was transferred in time d, including its installation.
func (n *Node) onSnapshot(direction string, size int64, d time.Duration) {
	n.metrics.RecordSnapshot(direction, size, d)
	if direction == consensus.SnapshotReceived {
		n.joinSteps.End(event.StepSnapshot)
	}
}

// recordJoinSteps records the steps of the join that have ended according to the members of gossip and the servers of
// Raft's configuration.
func (n *Node) recordJoinSteps(members []gossip.Member, servers []consensus.Server) {
	for _, member := range members {
		if member.Node && member.Status == gossip.Alive && member.ID != string(n.self) {
			n.joinSteps.End(event.StepAnnounce)
		}
	}
	for _, server := range servers {
		if server.Node() == string(n.self) {
			n.joinSteps.End(event.StepServer)
		}
	}
}
