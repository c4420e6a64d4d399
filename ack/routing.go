package ack

import "shardway/shardmap"

// RouteKind says what a node does with a request for a shard.
type RouteKind uint8

// The kinds. Those that begin with Held let the request wait.
const (
	RouteLocal     RouteKind = iota + 1 // it is run here, while there is a lease
	RouteRemote                         // it is forwarded to its owner
	HeldNoMap                           // no map was ever committed
	HeldPaused                          // pause: cluster, see Routing
	HeldMoving                          // a proposal moves the shard
	HeldOrphaned                        // nobody owns it
	HeldAcquiring                       // it is this node's, whose app has not acquired it yet
	HeldRestarting                      // its owner restarts in place, and is waited for
)

// Route is where requests for one shard go.
type Route struct {
	Kind RouteKind
	// Node is the owner, and Epoch its ownership epoch, of a local or remote route.
	Node  shardmap.NodeID
	Epoch shardmap.Epoch
}

// Routing is what a node routes by. It never changes.
type Routing struct {
	self       shardmap.NodeID
	state      *State
	paused     bool
	acquired   []shardmap.Epoch // by shard; nil: the app is not asked
	restarting bool             // the node admits nothing any more, and is to be back
}

// NewRouting returns how node self routes by s while it holds a lease that the leader
// of the given term granted, zero for none. A gateway has no lease to lose.
//
// With pause: cluster everything waits from the moment a proposal is applied or the
// lease is lost until a map is committed, and it must be one of the leader that
// granted the lease: a node whose log is late may get its lease before it has heard
// of that leader's proposal.
func NewRouting(self shardmap.NodeID, s *State, lease uint64, gateway bool) Routing {
	return Routing{
		self: self, state: s,
		paused: s.Timing().Pause == PauseCluster && (s.Open() || !gateway && (lease == 0 || lease != s.LastTerm())),
	}
}

// Acquired returns r for a node whose app has to acquire a shard before its first
// request: by shard, the ownership epoch under which it has, or zero. The slice must
// not change any more.
func (r Routing) Acquired(epochs []shardmap.Epoch) Routing {
	r.acquired = epochs
	return r
}

// Away returns r for a node that restarts in place: what it has waits where it comes from,
// not here, for nobody here will ever take it.
func (r Routing) Restarting() Routing {
	r.restarting = true
	return r
}

// State returns the state that it was made from.
func (r Routing) State() *State { return r.state }

// Route says where s is served. Only a committed map routes (G3); a proposal holds
// what it moves.
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

// has reports whether the node's app holds s under the given ownership epoch.
func (r Routing) hasAcquired(s shardmap.Shard, epoch shardmap.Epoch) bool {
	return r.acquired == nil || int(s) < len(r.acquired) && r.acquired[s] == epoch
}

// Keys returns the key configuration by which the keys of the requests that this routes must
// have been found.
func (r Routing) Keys() string { return r.state.Keys() }
