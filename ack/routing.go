package ack

import "shardway/shardmap"

// RouteKind is what a node does with a request for a shard.
type RouteKind uint8

// The kinds. Requests of the kinds that begin with Held wait.
const (
	RouteLocal     RouteKind = iota + 1 // served here while there is a lease
	RouteRemote                         // forwarded to its owner
	HeldNoMap                           // no map has been committed yet
	HeldPaused                          // the cluster is paused, see NewRouting
	HeldMoving                          // a proposal moves the shard
	HeldOrphaned                        // the shard has no owner
	HeldAcquiring                       // this node owns it, and its app has not acquired it yet
	HeldRestarting                      // its owner restarts in place
)

// Route is the destination of requests for one shard.
type Route struct {
	Kind RouteKind
	// Node is the owner, and Epoch its ownership epoch, for a local or remote route.
	Node  shardmap.NodeID
	Epoch shardmap.Epoch
}

// Routing is the routing of one node. It is immutable.
type Routing struct {
	self       shardmap.NodeID
	state      *State
	paused     bool
	acquired   []shardmap.Epoch // by shard; nil: the app has no hooks
	restarting bool             // this node admits nothing any more, and restarts
}

// NewRouting returns how node self routes by s while it holds a lease of the leader of the
// given term; zero means no lease. A gateway has no lease.
//
// With RebalanceStopTheWorld, all requests wait from the application of a proposal, or the loss of the
// lease, until a map is committed. The leader that granted the lease must have proposed that
// map: a node whose log lags may get its lease before it applies the proposal of that leader.
func NewRouting(self shardmap.NodeID, s *State, lease uint64, gateway bool) Routing {
	return Routing{
		self: self, state: s,
		paused: s.Timing().RebalanceMode == RebalanceStopTheWorld && (s.Open() || !gateway && (lease == 0 || lease != s.LastTerm())),
	}
}

// Acquired returns a copy of r for a node whose app must acquire a shard before its first
// request. epochs contains, by shard, the ownership epoch under which the app has acquired it,
// or zero. The caller must not modify the slice.
func (r Routing) Acquired(epochs []shardmap.Epoch) Routing {
	r.acquired = epochs
	return r
}

// Restarting returns a copy of r for a node that restarts in place. Requests for its shards
// wait at the node that received them, because this process will never serve them.
func (r Routing) Restarting() Routing {
	r.restarting = true
	return r
}

// State returns the state of the routing.
func (r Routing) State() *State { return r.state }

// Route returns the route of s. Only a committed map routes (G3), and a proposal holds the
// shards that it moves.
func (r Routing) Route(s shardmap.Shard) Route {
	committed := r.state.Committed()
	if committed.Epoch() == 0 {
		return Route{Kind: HeldNoMap}
	}
	owner := committed.Owner(s)
	switch {
	case r.paused:
		return Route{Kind: HeldPaused}
	case r.state.ChangesKeys():
		return Route{Kind: HeldMoving}
	case r.state.Open() && r.state.Last().Owner(s) != owner:
		return Route{Kind: HeldMoving}
	case owner == "":
		return Route{Kind: HeldOrphaned}
	case owner == r.self && r.restarting:
		return Route{Kind: HeldRestarting, Node: owner, Epoch: committed.OwnedSince(s)}
	case owner == r.self && !r.hasAcquired(s, committed.OwnedSince(s)):
		return Route{Kind: HeldAcquiring, Node: owner, Epoch: committed.OwnedSince(s)}
	case owner == r.self:
		return Route{Kind: RouteLocal, Node: owner, Epoch: committed.OwnedSince(s)}
	case r.state.Restarting(owner):
		return Route{Kind: HeldRestarting, Node: owner, Epoch: committed.OwnedSince(s)}
	}
	return Route{Kind: RouteRemote, Node: owner, Epoch: committed.OwnedSince(s)}
}

// hasAcquired reports whether the app of the node holds s under the given ownership epoch.
func (r Routing) hasAcquired(s shardmap.Shard, epoch shardmap.Epoch) bool {
	return r.acquired == nil || int(s) < len(r.acquired) && r.acquired[s] == epoch
}

// Keys returns the key configuration with which the keys of routed requests must have been
// found.
func (r Routing) Keys() string { return r.state.Keys() }
