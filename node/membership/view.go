package membership

import (
	"slices"

	"shardway/ack/leader"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// Servers has the IDs ("node/disk") of the voters and of the non-voters of Raft.
type Servers struct{ Voters, Others []string }

// ServersOf returns the voters and the non-voters of a configuration.
func ServersOf(all []consensus.Server) (s Servers) {
	for _, x := range all {
		if x.Voter {
			s.Voters = append(s.Voters, x.ID)
		} else {
			s.Others = append(s.Others, x.ID)
		}
	}
	return s
}

// All returns the IDs of all servers, voters first.
func (s Servers) All() []string { return slices.Concat(s.Voters, s.Others) }

// Of returns the server of a node, or "".
func (s Servers) Of(node string) string {
	all := s.All()
	if i := slices.IndexFunc(all, func(server string) bool { return nodeOf(server) == node }); i >= 0 {
		return all[i]
	}
	return ""
}

// View is the Raft configuration with the heartbeats that the leader has received.
type View struct {
	Servers
	Heard []leader.MemberView
}

// memberView returns the last heartbeat of the node of a server. ok is false if there is none.
func (r View) memberView(server string) (view leader.MemberView, ok bool) {
	i := slices.IndexFunc(r.Heard, func(v leader.MemberView) bool { return v.Node == shardmap.NodeID(nodeOf(server)) })
	if i < 0 {
		return leader.MemberView{SinceHeartbeat: -1, Silent: true}, false
	}
	return r.Heard[i], true
}

// isConnected reports whether the leader has received recent heartbeats of this server.
func (r View) isConnected(server string) bool {
	v, ok := r.memberView(server)
	return ok && v.SinceHeartbeat >= 0 && !v.Silent && v.Heartbeat.Server == server
}

// hasWorkingLink reports whether the leader has received recent heartbeats of this server, which
// show that its replies reach the server.
func (r View) hasWorkingLink(server string) bool {
	v, _ := r.memberView(server)
	return r.isConnected(server) && v.LinkWorks
}

// isGone reports whether no process can run on the disk of this server any more, so that another
// disk may use the ID of the node. Otherwise two processes could act with the same epochs.
func (r View) isGone(server string) bool {
	v, ok := r.memberView(server)
	return !r.isConnected(server) && (!ok || v.ProcessGone)
}

// isExpendable reports whether the cluster works without the vote of this server: a majority of
// the remaining voters is heard. Otherwise its removal could not be committed, and its vote may be
// needed.
func (r View) isExpendable(server string) bool {
	if !slices.Contains(r.Voters, server) {
		return true
	}
	heard := 0
	for _, v := range r.Voters {
		if v != server && r.isConnected(v) {
			heard++
		}
	}
	return 2*heard > len(r.Voters)-1
}

// isCaughtUp reports whether a server has the log up to its current end. The log contains only
// maps, so this holds if its node has applied the last map.
func (r View) isCaughtUp(server string, committed shardmap.Epoch) bool {
	v, _ := r.memberView(server)
	hb := v.Heartbeat
	return !hb.Leaving && !hb.Goodbye && hb.Applied >= committed && (hb.Gateway || hb.Acked >= committed)
}

// isInUncoveredZone reports whether a server is in a zone in which no voter is heard.
func (r View) isInUncoveredZone(server string) bool {
	v, _ := r.memberView(server)
	return v.Heartbeat.Zone != "" && !slices.ContainsFunc(r.Voters, func(voter string) bool {
		other, _ := r.memberView(voter)
		return r.isConnected(voter) && other.Heartbeat.Zone == v.Heartbeat.Zone
	})
}

// isOnlyInZone reports whether a voter is the only voter in its zone.
func (r View) isOnlyInZone(server string) bool {
	v, _ := r.memberView(server)
	return v.Heartbeat.Zone != "" && !slices.ContainsFunc(r.Voters, func(voter string) bool {
		other, _ := r.memberView(voter)
		return voter != server && other.Heartbeat.Zone == v.Heartbeat.Zone
	})
}

// MayLeave reports whether the server of a stopping node can be removed from the configuration. A
// voter can be removed only if at least three voters remain that are heard and are not leaving.
func (r View) MayLeave(server string) bool {
	if slices.Contains(r.Others, server) {
		return true
	}
	remain := 0
	for _, v := range r.Voters {
		view, _ := r.memberView(v)
		if v != server && r.isConnected(v) && !view.Heartbeat.Leaving && !view.Heartbeat.Goodbye {
			remain++
		}
	}
	return slices.Contains(r.Voters, server) && remain >= minVoters
}

// nodeOf returns the node ID of a server ID.
func nodeOf(server string) string { return consensus.Server{ID: server}.Node() }

// isAlive reports whether gossip shows a node as alive.
func isAlive(g Gossip, node string) bool {
	return slices.ContainsFunc(g.Members(), func(m gossip.Member) bool {
		return m.ID == node && m.Node && m.Status == gossip.Alive
	})
}
