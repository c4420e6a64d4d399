package ack

import "shardway/shardmap"

// RouteKind is how a node handles a request for a shard: it serves the request, forwards it,
// or queues it for a reason.
type RouteKind uint8

// The kinds. A request of a kind that begins with Queued waits in the queue of the node until the
// kind changes, or until its queue timeout.
const (
	RouteLocal       RouteKind = iota + 1 // this node serves the request while it has a lease
	RouteRemote                           // this node forwards the request to the owner
	QueuedNoMap                           // no map has been committed yet
	QueuedPaused                          // all requests wait for a map, see NewRouting
	QueuedMoving                          // the open proposal moves the shard, or changes the keys
	QueuedOrphaned                        // the shard has no owner
	QueuedAcquiring                       // this node owns the shard, and its app has not acquired it yet
	QueuedRestarting                      // the owner restarts in place: it keeps the shard
)

// Route is the destination of requests for one shard.
type Route struct {
	Kind RouteKind
	// Node is the owner, and Epoch its ownership epoch, for a local or remote route.
	Node  shardmap.NodeID
	Epoch shardmap.Epoch
	// Instance is the app instance of the owner that gets the request.
	Instance shardmap.Instance
}

// Routing determines a Route for each shard, from the state of the log and the lease of one
// node. It is immutable, so any number of goroutines may use it.
type Routing struct {
	self       shardmap.NodeID
	state      *State
	paused     bool
	acquired   []shardmap.Epoch // by shard; nil means that the app has no hooks
	restarting bool             // this node has stopped admitting requests, and will restart in place
}

// NewRouting returns the routing of node self in a state. leaseTerm is the term of the leader that
// granted the current lease of the node; zero means no lease. A gateway never has one.
//
// With RebalanceStopTheWorld, all requests wait while a proposal is open. They also wait while the
// node has no lease, or while the last proposal in the state is from a different term than the
// lease. A node whose log is behind may get a lease before it applies the proposal of that leader.
// It must not serve by the old map.
func NewRouting(self shardmap.NodeID, state *State, leaseTerm uint64, gateway bool) Routing {
	return Routing{self: self, state: state, paused: stopsAllRequests(state, leaseTerm, gateway)}
}

// stopsAllRequests implements RebalanceStopTheWorld for NewRouting.
func stopsAllRequests(state *State, leaseTerm uint64, gateway bool) bool {
	if state.Timing().RebalanceMode != RebalanceStopTheWorld {
		return false
	}
	if state.HasOpenProposal() {
		return true
	}
	followsLeader := leaseTerm != 0 && leaseTerm == state.ProposedTerm()
	return !gateway && !followsLeader
}

// WithAcquired returns a copy of rt for a node whose app must acquire a shard before its first
// request. epochs contains, by shard, the ownership epoch under which the app has acquired the
// shard. Zero means not acquired. The caller must not modify the slice afterwards.
func (rt Routing) WithAcquired(epochs []shardmap.Epoch) Routing {
	rt.acquired = epochs
	return rt
}

// WithRestarting returns a copy of rt for a node that restarts in place. This process will never
// serve its shards again, so requests for them wait at the node that received them from a client,
// and that node sends them to the next process.
func (rt Routing) WithRestarting() Routing {
	rt.restarting = true
	return rt
}

// State returns the state of the log from which the routing was made.
func (rt Routing) State() *State { return rt.state }

// Route returns the route of requests for a shard. Requests are sent only to the owner in the
// committed map (guarantee G3). While a proposal moves a shard, requests for the shard wait.
func (rt Routing) Route(shard shardmap.Shard) Route {
	committed := rt.state.Committed()
	if committed.Epoch() == 0 {
		return Route{Kind: QueuedNoMap}
	}
	owner := committed.Owner(shard)
	switch {
	case rt.paused:
		return Route{Kind: QueuedPaused}
	case rt.state.ChangesKeyConfig():
		return Route{Kind: QueuedMoving}
	case rt.state.HasOpenProposal() && !rt.state.Proposed().HasSameOwner(committed, shard):
		return Route{Kind: QueuedMoving}
	case owner == "":
		return Route{Kind: QueuedOrphaned}
	}
	route := Route{Kind: RouteRemote, Node: owner, Epoch: committed.OwnedSince(shard), Instance: committed.Instance(shard)}
	isLocal := owner == rt.self
	switch {
	case isLocal && rt.restarting:
		route.Kind = QueuedRestarting
	case isLocal && !rt.hasAcquired(shard, route.Epoch):
		route.Kind = QueuedAcquiring
	case isLocal:
		route.Kind = RouteLocal
	case rt.state.Restarting(owner):
		route.Kind = QueuedRestarting
	}
	return route
}

// hasAcquired reports whether the app of the node holds the shard under the given ownership epoch.
func (rt Routing) hasAcquired(shard shardmap.Shard, epoch shardmap.Epoch) bool {
	return rt.acquired == nil || int(shard) < len(rt.acquired) && rt.acquired[shard] == epoch
}

// KeyConfig returns the key configuration. The caller must use it to find the key, and so the
// shard, of each request that it routes.
func (rt Routing) KeyConfig() string { return rt.state.KeyConfig() }
