package cluster

import (
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/endpoints"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/node/membership"
	"shardway/shardmap"
)

// View is the view that this node has of its cluster. Its methods may be called from any goroutine.
type View struct {
	self, server string            // IDs of this node and of its Raft server
	state        func() *ack.State // the replicated state of this node

	// InitialTiming is the timing of a cluster that this node creates.
	InitialTiming ack.Timing
	// Gossip and Raft are set once, before the first call of a method that reads them.
	Gossip *gossip.Gossip
	Raft   *consensus.Raft

	directory atomic.Pointer[endpoints.Directory]
	members   atomic.Pointer[[]gossip.Member]     // members of gossip at its last change, see Members
	addrs     atomic.Pointer[map[netip.Addr]bool] // addresses of all nodes, see IsNodeAddress
	inRaft    atomic.Pointer[map[string]bool]     // nodes with a server in Raft; nil means not known yet
}

// NewView returns the view of the node self with a Raft server, which contains no other nodes yet. state returns the replicated
// state. The caller must set Gossip and Raft.
func NewView(self, server string, timing ack.Timing, state func() *ack.State) *View {
	v := &View{self: self, server: server, state: state, InitialTiming: timing}
	v.directory.Store(endpoints.New(nil))
	return v
}

// State returns the replicated state of this node.
func (v *View) State() *ack.State { return v.state() }

// Servers returns the IDs of Raft's servers in the latest configuration in the log of this node. others are
// the servers that do not vote.
func (v *View) Servers() (voters, others []string) {
	for _, s := range v.Raft.Configuration() {
		if s.Voter {
			voters = append(voters, s.ID)
		} else {
			others = append(others, s.ID)
		}
	}
	return voters, others
}

// OtherVoters returns the voters except this node; nil means that this node is not a voter.
func (v *View) OtherVoters() []string {
	voters := v.Raft.Voters()
	at := slices.Index(voters, v.server)
	if at < 0 {
		return nil
	}
	return slices.Delete(slices.Clone(voters), at, at+1)
}

// Remembers reports whether gossip contains a node in any state, including a node that has left or failed.
func (v *View) Remembers(node string) bool {
	return slices.ContainsFunc(v.Gossip.Members(), func(m gossip.Member) bool { return m.ID == node && m.Node })
}

// IsAlive reports whether gossip lists a node as alive.
func (v *View) IsAlive(node string) bool {
	return slices.ContainsFunc(v.Gossip.Members(), func(m gossip.Member) bool {
		return m.ID == node && m.Node && m.Status == gossip.Alive
	})
}

// Leader returns the ID of the leader as far as this node can determine, or "". A leader whose disk has
// stalled does not return itself: it has isolated itself from the other voters, and one of them can
// become leader.
func (v *View) Leader() string {
	leader := v.Raft.Leader()
	if leader == v.self && v.Raft.IsIsolated() {
		return ""
	}
	return leader
}

// OtherAliveNodes returns the other nodes that are alive according to gossip.
func (v *View) OtherAliveNodes() (nodes []string) {
	for _, m := range v.Gossip.Members() {
		if m.Node && m.ID != v.self && m.Status == gossip.Alive {
			nodes = append(nodes, m.ID)
		}
	}
	return nodes
}

// IsLastNode reports whether gossip contains no other node.
func (v *View) IsLastNode() bool {
	return !slices.ContainsFunc(v.Gossip.Members(), func(m gossip.Member) bool {
		return m.Node && m.ID != v.self && m.Status == gossip.Alive
	})
}

// UnknownNode returns the error for a node that is not in the cluster. The error lists the nodes of the
// cluster.
func (v *View) UnknownNode(node string) error {
	return api.UnknownNode(node, v.Nodes())
}

// Nodes returns the sorted IDs of the nodes that Raft's configuration, the map or gossip contains.
func (v *View) Nodes() []string {
	ids := map[string]bool{}
	voters, others := v.Servers()
	for _, server := range slices.Concat(voters, others) {
		ids[consensus.NodeOf(server)] = true
	}
	for _, m := range v.state().Committed().Members() {
		ids[string(m.ID)] = true
	}
	for _, m := range v.Gossip.Members() {
		if m.Node {
			ids[m.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// IsDrained reports whether an operator has requested a drain of this node.
func (v *View) IsDrained() bool { return v.state().Policy().Drained[shardmap.NodeID(v.self)] }

// HasNode reports whether a node belongs to this cluster, or belonged to it recently.
func (v *View) HasNode(node string) bool {
	voters, others := v.Servers()
	return consensus.ServerOfNode(slices.Concat(voters, others), node) != "" || v.state().Committed().IsMember(shardmap.NodeID(node)) ||
		slices.ContainsFunc(v.Gossip.Members(), func(m gossip.Member) bool { return m.ID == node && m.Node })
}

// HasZone reports whether gossip contains a node in zone.
func (v *View) HasZone(zone string) bool {
	return slices.ContainsFunc(v.Gossip.Members(), func(m gossip.Member) bool { return m.Node && m.Tags.Zone == zone })
}

// MayLeave reports whether the server of a stopping node may be removed from Raft's configuration. heard
// is the leader's view of the nodes.
func (v *View) MayLeave(server string, heard []leader.MemberView) bool {
	return membership.View{Servers: membership.ServersOf(v.Raft.Configuration()), Heard: heard}.MayLeave(server)
}

// Timing returns the timing of the cluster, as far as this node has applied the log. Before there is a
// cluster, it returns InitialTiming. Leases do not depend on it: each response of the leader contains the
// timing that applies to its lease.
func (v *View) Timing() ack.Timing {
	if s := v.state(); s.Bootstrapped() {
		return s.Timing()
	}
	return v.InitialTiming
}

// HasNextLevel reports whether an alive node, according to gossip, supports a level above the one in force.
func (v *View) HasNextLevel() bool {
	most, inForce := uint8(ack.MaxFormatVersion), uint8(v.state().FormatVersion())
	for _, m := range v.Members() {
		if m.Node && m.Status == gossip.Alive {
			most = max(most, m.Tags.Levels.Known)
		}
	}
	return most > inForce
}

// MayConnect reports whether a node may connect to this node: gossip or Raft's configuration contains it. Raft's
// configuration counts, too, so that members can still connect when gossip packets are lost.
func (v *View) MayConnect(node string) bool {
	if v.Gossip.Knows(node) {
		return true
	}
	voters, others := v.Servers()
	return consensus.ServerOfNode(slices.Concat(voters, others), node) != ""
}
