package membership

import (
	"slices"

	"shardway/ack/leader"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// Servers has the IDs ("node/disk") of the voters and of the non-voters of Raft.
type Servers struct{ Voters, NonVoters []string }

// ServersOf returns the voters and the non-voters of a configuration.
func ServersOf(configuration []consensus.Server) (servers Servers) {
	for _, server := range configuration {
		if server.Voter {
			servers.Voters = append(servers.Voters, server.ID)
		} else {
			servers.NonVoters = append(servers.NonVoters, server.ID)
		}
	}
	return servers
}

// All returns the IDs of all servers, voters first.
func (s Servers) All() []string { return slices.Concat(s.Voters, s.NonVoters) }

// Of returns the server of a node, or "".
func (s Servers) Of(node string) string {
	servers := s.All()
	if index := slices.IndexFunc(servers, func(server string) bool { return nodeOf(server) == node }); index >= 0 {
		return servers[index]
	}
	return ""
}

// View is the Raft configuration with the heartbeats that the leader has received.
type View struct {
	Servers
	MemberViews []leader.MemberView
}

// memberView returns the last heartbeat of the node of a server. ok is false if there is none.
func (v View) memberView(server string) (view leader.MemberView, ok bool) {
	index := slices.IndexFunc(v.MemberViews, func(member leader.MemberView) bool { return member.Node == shardmap.NodeID(nodeOf(server)) })
	if index < 0 {
		return leader.MemberView{SinceHeartbeat: leader.NeverReceived, Silent: true}, false
	}
	return v.MemberViews[index], true
}

// isConnected reports whether the leader has received recent heartbeats of this server.
func (v View) isConnected(server string) bool {
	member, ok := v.memberView(server)
	return ok && member.SinceHeartbeat >= 0 && !member.Silent && member.Heartbeat.Server == server
}

// hasWorkingLink reports whether the leader has received recent heartbeats of this server, which
// show that its replies reach the server.
func (v View) hasWorkingLink(server string) bool {
	member, _ := v.memberView(server)
	return v.isConnected(server) && member.LinkWorks
}

// isGone reports whether no process can still run on the disk of this server, so that a different
// disk may use the ID of the node. Otherwise two processes could act with the same epochs.
func (v View) isGone(server string) bool {
	member, ok := v.memberView(server)
	return !v.isConnected(server) && (!ok || member.ProcessGone)
}

// canReplace reports whether a server with another disk may replace this server of the same node.
func (v View) canReplace(server string) bool { return v.isGone(server) && v.isExpendable(server) }

// isExpendable reports whether the cluster works without the vote of this server: a majority of
// the remaining voters is heard. Otherwise its removal could not be committed, and its vote may be
// needed.
func (v View) isExpendable(server string) bool {
	if !slices.Contains(v.Voters, server) {
		return true
	}
	connected := 0
	for _, voter := range v.Voters {
		if voter != server && v.isConnected(voter) {
			connected++
		}
	}
	remaining := len(v.Voters) - 1
	return 2*connected > remaining
}

// isCaughtUp reports whether a server has the log up to its current end. The log contains only
// maps, so this holds if its node has applied the last map.
func (v View) isCaughtUp(server string, committed shardmap.Epoch) bool {
	member, _ := v.memberView(server)
	heartbeat := member.Heartbeat
	if heartbeat.Leaving || heartbeat.Goodbye {
		return false // the node stops soon
	}
	hasAcked := heartbeat.Gateway || heartbeat.Acked >= committed // a gateway acknowledges nothing
	return hasAcked && heartbeat.Applied >= committed
}

// isInUncoveredZone reports whether a server is in a zone in which no voter is heard.
func (v View) isInUncoveredZone(server string) bool {
	zone := v.zoneOf(server)
	return zone != "" && !slices.ContainsFunc(v.Voters, func(voter string) bool {
		return v.isConnected(voter) && v.zoneOf(voter) == zone
	})
}

// isOnlyInZone reports whether a voter is the only voter in its zone.
func (v View) isOnlyInZone(server string) bool {
	zone := v.zoneOf(server)
	return zone != "" && !slices.ContainsFunc(v.Voters, func(voter string) bool {
		return voter != server && v.zoneOf(voter) == zone
	})
}

// zoneOf returns the zone in the last heartbeat of a server; empty means none.
func (v View) zoneOf(server string) string {
	member, _ := v.memberView(server)
	return member.Heartbeat.Zone
}

// CanRemove reports whether the server of a stopping node can be removed from the configuration. A
// voter can be removed only if at least three voters remain that are heard and are not leaving.
func (v View) CanRemove(server string) bool {
	if slices.Contains(v.NonVoters, server) {
		return true
	}
	remaining := 0
	for _, voter := range v.Voters {
		view, _ := v.memberView(voter)
		if voter != server && v.isConnected(voter) && !view.Heartbeat.Leaving && !view.Heartbeat.Goodbye {
			remaining++
		}
	}
	return slices.Contains(v.Voters, server) && remaining >= minVoters
}

// nodeOf returns the node ID of a server ID.
func nodeOf(server string) string { return consensus.Server{ID: server}.Node() }

// isAlive reports whether gossip shows a node as alive.
func isAlive(members Gossip, node string) bool {
	return slices.ContainsFunc(members.Members(), func(member gossip.Member) bool {
		return member.ID == node && member.Node && member.Status == gossip.Alive
	})
}
