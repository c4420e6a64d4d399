package roster

import (
	"slices"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// Servers are the ids, "node/disk", of Raft's servers: those that vote and the others.
type Servers struct{ Voters, Others []string }

// ServersOf sorts a configuration.
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

// All returns all of them, the voters first.
func (s Servers) All() []string { return slices.Concat(s.Voters, s.Others) }

// Of returns the server of a node, or "".
func (s Servers) Of(node string) string {
	all := s.All()
	if i := slices.IndexFunc(all, func(server string) bool { return nodeOf(server) == node }); i >= 0 {
		return all[i]
	}
	return ""
}

// View is Raft's configuration, and what the leader has heard of its servers.
type View struct {
	Servers
	Heard []ack.MemberView
}

// of returns what was heard of the node of a server.
func (r View) memberView(server string) (ack.MemberView, bool) {
	i := slices.IndexFunc(r.Heard, func(v ack.MemberView) bool { return v.Node == shardmap.NodeID(nodeOf(server)) })
	if i < 0 {
		return ack.MemberView{SinceHeartbeat: -1, Silent: true}, false
	}
	return r.Heard[i], true
}

// hears reports that the heartbeats of this very server are fresh.
func (r View) isHeard(server string) bool {
	v, ok := r.memberView(server)
	return ok && v.SinceHeartbeat >= 0 && !v.Silent && v.Heartbeat.Server == server
}

// echoes reports that the heartbeats of this very server are fresh and show that the
// leader's answers reach it.
func (r View) hasWorkingLink(server string) bool {
	v, _ := r.memberView(server)
	return r.isHeard(server) && v.LinkWorks
}

// over reports that nothing may run on this server's disk any more, so that another
// disk may take the node's name: what it did would have the same epochs.
func (r View) isGone(server string) bool {
	v, ok := r.memberView(server)
	return !r.isHeard(server) && (!ok || v.ProcessGone)
}

// spares reports that the others can do without a server's vote: those that are heard
// are most of the voters that stay. Else taking it out could never be committed, and
// it may be needed itself.
func (r View) isExpendable(server string) bool {
	if !slices.Contains(r.Voters, server) {
		return true
	}
	heard := 0
	for _, v := range r.Voters {
		if v != server && r.isHeard(v) {
			heard++
		}
	}
	return 2*heard > len(r.Voters)-1
}

// caughtUp reports whether a server has the log to its present end: all that
// this log carries are maps, and its node has applied the last one.
func (r View) isCaughtUp(server string, committed shardmap.Epoch) bool {
	v, _ := r.memberView(server)
	hb := v.Heartbeat
	return !hb.Leaving && !hb.Goodbye && hb.Applied >= committed && (hb.Gateway || hb.Acked >= committed)
}

// apart reports that a server stands in a zone in which no voter is heard.
func (r View) isInUncoveredZone(server string) bool {
	v, _ := r.memberView(server)
	return v.Heartbeat.Zone != "" && !slices.ContainsFunc(r.Voters, func(voter string) bool {
		other, _ := r.memberView(voter)
		return r.isHeard(voter) && other.Heartbeat.Zone == v.Heartbeat.Zone
	})
}

// lone reports that a voter is the only one in its zone.
func (r View) isOnlyInZone(server string) bool {
	v, _ := r.memberView(server)
	return v.Heartbeat.Zone != "" && !slices.ContainsFunc(r.Voters, func(voter string) bool {
		other, _ := r.memberView(voter)
		return voter != server && other.Heartbeat.Zone == v.Heartbeat.Zone
	})
}

// MayLeave reports whether a stopping node's server may be taken out of the
// configuration: a voter only if at least three voters remain that are heard and
// do not leave themselves.
func (r View) MayLeave(server string) bool {
	if slices.Contains(r.Others, server) {
		return true
	}
	remain := 0
	for _, v := range r.Voters {
		view, _ := r.memberView(v)
		if v != server && r.isHeard(v) && !view.Heartbeat.Leaving && !view.Heartbeat.Goodbye {
			remain++
		}
	}
	return slices.Contains(r.Voters, server) && remain >= minVoters
}

// nodeOf returns the node of a server.
func nodeOf(server string) string { return consensus.Server{ID: server}.Node() }

// alive reports whether gossip sees a node.
func isAlive(g Gossip, node string) bool {
	return slices.ContainsFunc(g.Members(), func(m gossip.Member) bool {
		return m.ID == node && m.Node && m.Status == gossip.Alive
	})
}
