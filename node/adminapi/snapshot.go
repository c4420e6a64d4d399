package adminapi

import (
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/shardmap"
)

// snapshot contains the inputs of the node state, the cluster state and the numbers in a status. Each value is read
// once, so that the parts of a response do not contradict each other.
type snapshot struct {
	self   shardmap.NodeID
	shards int // number of shards of all services
	// startedShards is the number of shards of the services that have started, see ack.State.StartedShards.
	startedShards int
	replicated    *ack.State // the state by which this node routes
	leader        string     // "" if this node knows none
	term          uint64     // Raft's term in which leader leads
	isLeader      bool       // this node runs the leader loop
	isolated      bool       // this node has isolated itself because its disk stalled
	leaseLeft     time.Duration
	nodes         []api.Node // result of Nodes for the same replicated state and leader
}

// snapshot reads the state of this node once. views is the leader's view of the nodes; nil means that the leader did
// not respond.
func (a *API) snapshot(views []leader.MemberView) snapshot {
	replicated := a.options.Router.State()
	s := snapshot{self: a.options.Self, shards: a.options.Shards, startedShards: a.options.Shards, replicated: replicated, leaseLeft: a.options.Router.LeaseLeft(), isolated: a.options.View.Raft.IsIsolated()}
	if replicated.Bootstrapped() {
		s.shards, s.startedShards = replicated.ServiceShards(), replicated.StartedShards()
	}
	for isSameTerm := false; !isSameTerm; {
		s.term = a.options.View.Raft.Term()
		s.leader = a.options.View.Leader()
		isSameTerm = a.options.View.Raft.Term() == s.term
	}
	s.isLeader = s.leader == string(a.options.Self) && a.options.Leader.Leadership() != nil
	s.nodes = a.listNodes(s.replicated, views, s.leader)
	return s
}

// hasLease reports whether this node has a lease.
func (s snapshot) hasLease() bool { return s.leaseLeft > 0 }
