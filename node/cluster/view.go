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

// View is this node's view of its cluster. Its methods may be called from any goroutine.
type View struct {
	self, serverID  string            // IDs of this node and of its Raft server
	replicatedState func() *ack.State // the replicated state of this node

	// InitialTiming is the timing of a cluster that this node creates.
	InitialTiming ack.Timing
	// Gossip and Raft are set once, before the first call of a method that reads them.
	Gossip *gossip.Gossip
	Raft   *consensus.Raft

	directory atomic.Pointer[endpoints.Directory]
	members   atomic.Pointer[[]gossip.Member]     // members of gossip at its last change, see Members
	nodeAddrs atomic.Pointer[map[netip.Addr]bool] // addresses of all nodes, see IsNodeAddress
	raftNodes atomic.Pointer[map[string]bool]     // nodes with a server in Raft; nil means not known yet
}

// NewView returns the view of node self, whose Raft server is server. It contains no other nodes yet. state returns
// the replicated state. The caller must set Gossip and Raft.
func NewView(self, server string, timing ack.Timing, state func() *ack.State) *View {
	v := &View{self: self, serverID: server, replicatedState: state, InitialTiming: timing}
	v.directory.Store(endpoints.New(nil))
	return v
}

// State returns the replicated state of this node.
func (v *View) State() *ack.State { return v.replicatedState() }

// Servers returns the IDs of Raft's servers in the latest configuration in the log of this node. nonvoters
// are the servers that do not vote.
func (v *View) Servers() (voters, nonvoters []string) {
	for _, server := range v.Raft.Configuration() {
		if server.Voter {
			voters = append(voters, server.ID)
		} else {
			nonvoters = append(nonvoters, server.ID)
		}
	}
	return voters, nonvoters
}

// IsVoter reports whether this node is a voter in the latest configuration of its log.
func (v *View) IsVoter() bool { return slices.Contains(v.Raft.Voters(), v.serverID) }

// OtherVoters returns the voters except this node; nil means that this node is not a voter.
func (v *View) OtherVoters() []string {
	voters := v.Raft.Voters()
	index := slices.Index(voters, v.serverID)
	if index < 0 {
		return nil
	}
	return slices.Delete(slices.Clone(voters), index, index+1)
}

// IsInGossip reports whether gossip contains a node in any state, including a node that has left or failed.
func (v *View) IsInGossip(node string) bool {
	return slices.ContainsFunc(v.Gossip.Members(), func(member gossip.Member) bool { return member.ID == node && member.Node })
}

// IsAlive reports whether gossip lists a node as alive.
func (v *View) IsAlive(node string) bool {
	return slices.ContainsFunc(v.Gossip.Members(), func(member gossip.Member) bool {
		return member.ID == node && member.Node && member.Status == gossip.Alive
	})
}

// Leader returns the ID of the leader that this node follows, or "". A leader whose disk has stalled does not
// return itself, because it has isolated itself from the other voters and one of them may become the leader.
func (v *View) Leader() string {
	leader := v.Raft.Leader()
	if leader == v.self && v.Raft.IsIsolated() {
		return ""
	}
	return leader
}

// OtherAliveNodes returns the other nodes that are alive according to gossip.
func (v *View) OtherAliveNodes() (nodes []string) {
	for _, member := range v.Gossip.Members() {
		if member.Node && member.ID != v.self && member.Status == gossip.Alive {
			nodes = append(nodes, member.ID)
		}
	}
	return nodes
}

// IsLastNode reports whether gossip contains no other node.
func (v *View) IsLastNode() bool {
	return !slices.ContainsFunc(v.Gossip.Members(), func(member gossip.Member) bool {
		return member.Node && member.ID != v.self && member.Status == gossip.Alive
	})
}

// UnknownNode returns the error for a node that is not in the cluster. The error lists the nodes of the
// cluster.
func (v *View) UnknownNode(node string) error {
	return api.UnknownNode(node, v.Nodes())
}

// Nodes returns the sorted IDs of the nodes in Raft's configuration, the map or gossip.
func (v *View) Nodes() []string {
	ids := map[string]bool{}
	voters, nonvoters := v.Servers()
	for _, server := range slices.Concat(voters, nonvoters) {
		ids[consensus.NodeOf(server)] = true
	}
	for _, member := range v.replicatedState().Committed().Members() {
		ids[string(member.ID)] = true
	}
	for _, member := range v.Gossip.Members() {
		if member.Node {
			ids[member.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// IsMarkedFailed reports whether an operator has marked this node as failed.
func (v *View) IsMarkedFailed() bool {
	return v.replicatedState().Policy().MarkedFailed[shardmap.NodeID(v.self)]
}

// IsDrained reports whether an operator wants this node to own no shards: the node is drained or marked as failed.
func (v *View) IsDrained() bool {
	return v.replicatedState().Policy().Drained[shardmap.NodeID(v.self)] || v.IsMarkedFailed()
}

// HasNode reports whether a node belongs to this cluster, or belonged to it recently.
func (v *View) HasNode(node string) bool {
	voters, nonvoters := v.Servers()
	return consensus.ServerOfNode(slices.Concat(voters, nonvoters), node) != "" || v.replicatedState().Committed().IsMember(shardmap.NodeID(node)) ||
		slices.ContainsFunc(v.Gossip.Members(), func(member gossip.Member) bool { return member.ID == node && member.Node })
}

// HasZone reports whether gossip contains a node in zone.
func (v *View) HasZone(zone string) bool {
	return slices.ContainsFunc(v.Gossip.Members(), func(member gossip.Member) bool { return member.Node && member.Tags.Zone == zone })
}

// Standbys returns the standbys of the shards in the committed map of state. replicas is their number, by service.
// Zones and roles of the nodes come from gossip.
func (v *View) Standbys(state *ack.State, replicas map[string]int) *shardmap.Standbys {
	inputs := ack.StandbyInputs{Replicas: replicas, Zones: map[shardmap.NodeID]string{}, Roles: map[shardmap.NodeID][]string{}}
	for _, member := range v.Gossip.Members() {
		if member.Node {
			inputs.Zones[shardmap.NodeID(member.ID)], inputs.Roles[shardmap.NodeID(member.ID)] = member.Tags.Zone, member.Tags.Roles
		}
	}
	return state.Standbys(inputs)
}

// HasRole reports whether gossip contains an alive node with the role that may get further shards. A gateway, and a
// node that an operator has cordoned, drained or marked as failed, may not.
func (v *View) HasRole(role string) bool {
	policy := v.replicatedState().Policy()
	return slices.ContainsFunc(v.Gossip.Members(), func(member gossip.Member) bool {
		id := shardmap.NodeID(member.ID)
		isExcluded := policy.Cordoned[id] || policy.IsDraining(id) || policy.MarkedFailed[id]
		mayOwnShards := member.Node && member.Status == gossip.Alive && member.Tags.Role != gossip.RoleGateway
		return mayOwnShards && !isExcluded && slices.Contains(member.Tags.Roles, role)
	})
}

// CanRemoveServer reports whether the server of a stopping node may be removed from Raft's configuration. views
// is the leader's view of the nodes.
func (v *View) CanRemoveServer(server string, views []leader.MemberView) bool {
	return membership.View{Servers: membership.ServersOf(v.Raft.Configuration()), MemberViews: views}.CanRemove(server)
}

// Timing returns the cluster's timing, as far as this node has applied the log, or InitialTiming before there is a
// cluster. Leases do not depend on it, because each response of the leader contains the timing of its lease.
func (v *View) Timing() ack.Timing {
	if replicated := v.replicatedState(); replicated.Bootstrapped() {
		return replicated.Timing()
	}
	return v.InitialTiming
}

// HasNextLevel reports whether an alive node, according to gossip, supports a level above the one in force. Before
// there is a cluster, no level is in force and the result is false.
func (v *View) HasNextLevel() bool {
	if !v.replicatedState().Bootstrapped() {
		return false
	}
	highest, inForce := uint8(ack.MaxFormatVersion), uint8(v.replicatedState().FormatVersion())
	for _, member := range v.Members() {
		if member.Node && member.Status == gossip.Alive {
			highest = max(highest, member.Tags.Levels.Known)
		}
	}
	return highest > inForce
}

// IsKnownPeer reports whether a node may connect to this node because it is in gossip or in Raft's configuration.
// Raft's configuration counts so that members can still connect when gossip packets are lost.
func (v *View) IsKnownPeer(node string) bool {
	if v.Gossip.HasNode(node) {
		return true
	}
	voters, nonvoters := v.Servers()
	return consensus.ServerOfNode(slices.Concat(voters, nonvoters), node) != ""
}
