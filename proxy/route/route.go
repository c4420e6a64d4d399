package route

import "strconv"

// Kind is how the requests for a shard are handled.
type Kind uint8

const (
	// Queued means that the request waits in the queue of this node.
	Queued Kind = iota + 1
	// Local means that the app of this node serves it.
	Local
	// Remote means that another node serves it.
	Remote
)

// String returns the name for metrics and logs.
func (k Kind) String() string {
	switch k {
	case Queued:
		return "queued"
	case Local:
		return "local"
	case Remote:
		return "remote"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Reason is why requests for a shard are queued.
type Reason uint8

const (
	// ReasonMoving means that a proposed map gives the shard to another node.
	ReasonMoving Reason = iota + 1
	// ReasonOrphaned means that the shard has no owner in the committed map.
	ReasonOrphaned
	// ReasonNoMap means that no map has been committed yet.
	ReasonNoMap
	// ReasonPaused means that requests for all shards are queued because of the rebalance mode
	// stop-the-world.
	ReasonPaused
	// ReasonNoLease means that this node owns the shard but has no lease.
	ReasonNoLease
	// ReasonAcquiring means that the app of this node has not acquired the shard yet. The acquire
	// hook must succeed before the first request.
	ReasonAcquiring
	// ReasonRestarting means that the owner is restarting and its shards wait for it.
	ReasonRestarting
	// ReasonRefused means that the owner has refused the request with 421. No Route has this
	// reason; it exists for metrics and errors.
	ReasonRefused
	// ReasonUnreachable means that the owner or the app accepted no connection. No Route has this
	// reason.
	ReasonUnreachable

	// ReasonCount is the length of an array that is indexed by Reason.
	ReasonCount = int(ReasonUnreachable) + 1
)

// String returns the name for metrics, logs and error responses.
func (r Reason) String() string {
	switch r {
	case ReasonMoving:
		return "moving"
	case ReasonOrphaned:
		return "orphaned"
	case ReasonNoMap:
		return "no-map"
	case ReasonPaused:
		return "paused"
	case ReasonNoLease:
		return "no-lease"
	case ReasonAcquiring:
		return "acquiring"
	case ReasonRestarting:
		return "restarting"
	case ReasonRefused:
		return "refused"
	case ReasonUnreachable:
		return "unreachable"
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

// Route is how the requests for one shard are handled.
type Route struct {
	Kind Kind
	// Node is the id of the owner. It is empty unless the route is Remote.
	Node string
	// Reason is set only if the route is Queued.
	Reason Reason
	// Instance is the app instance of this node that serves the shard, counted from zero. It is zero
	// unless the route is Local.
	Instance uint8
	// Epoch is the ownership epoch of the shard in the committed map. A PUT or DELETE that failed
	// at another node is sent again only in the same epoch, and never if it is zero.
	Epoch uint64
}
