package node

import (
	"shardway/ack/leader"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// gossipDepartures passes the departures of owners that gossip reports to the parts that check them. A departure is no
// evidence, because gossip can be replayed. Only the goroutine of followMembership uses gossipDepartures.
type gossipDepartures struct {
	// isOwner reports whether the departure of a node matters to this node.
	isOwner func(node string) bool
	// suspect makes this node check whether it can connect to a node.
	suspect func(node string)
	// leadership returns the leadership of this node; nil means that it does not lead.
	leadership func() *leaderloop.Leadership
	// check makes the leader check a node. send passes a message to the leader loop.
	check func(node string)
	send  func(leader.Message)

	departed       map[string]bool        // nodes that failed or left
	lastLeadership *leaderloop.Leadership // leadership that has received these departures
}

// newGossipDepartures returns the gossipDepartures of this node.
func (n *Node) newGossipDepartures() *gossipDepartures {
	return &gossipDepartures{
		isOwner: n.isWatchedOwner, suspect: n.unreachable.Suspect, leadership: n.leaderRunner.leadership.Load,
		check: n.leaderInbox.checkAfterDeparture, send: n.leaderInbox.send, departed: map[string]bool{},
	}
}

// observe handles the current members of gossip. A new leadership receives all departures.
func (d *gossipDepartures) observe(members []gossip.Member) {
	leadership := d.leadership()
	isNewLeadership := leadership != d.lastLeadership
	d.lastLeadership = leadership
	for _, member := range members {
		hasDeparted := member.Status == gossip.Failed || member.Status == gossip.Left
		isNew := hasDeparted != d.departed[member.ID] || hasDeparted && isNewLeadership
		if !member.Node || !isNew || hasDeparted && !d.isOwner(member.ID) {
			continue
		}
		if hasDeparted {
			d.departed[member.ID] = true
			d.suspect(member.ID)
		} else {
			delete(d.departed, member.ID)
		}
		if leadership == nil {
			continue
		}
		d.send(leader.GossipStatus{Node: shardmap.NodeID(member.ID), Failed: hasDeparted})
		if hasDeparted {
			d.check(member.ID)
		}
	}
}
