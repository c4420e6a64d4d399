package api

import "context"

// Cluster is the node to which the server belongs. The caller must not modify the slices and maps
// in its results.
type Cluster interface {
	Readiness
	Status() Status
	// Shards lists every shard in order.
	Shards() ShardList
	// Idle returns why an owner does not serve its shards, as far as this node has been informed. It
	// returns "" if the owner serves. An empty owner stands for orphaned shards.
	Idle(owner string) string
	// Endpoints lists every announced endpoint, sorted by node, then name.
	Endpoints() []Endpoint
	// Map returns the committed map. Before the first map, the epoch is 0 and there are no owners.
	Map() Map
	// WaitMap blocks until the epoch of the committed map exceeds after, or ctx ends.
	WaitMap(ctx context.Context, after uint64)
	// Backup returns the control state as a file. The error wraps ErrRefused if the node does not
	// belong to a cluster yet.
	Backup() ([]byte, error)
	// Do runs an action, through the leader if necessary, and returns once its result is known. The
	// error wraps one of the Err values of this package, or is a *problem.Problem for the client.
	Do(ctx context.Context, a Action) error
}

// Readiness reports whether a node can serve requests, by the same check as request admission.
type Readiness interface {
	// Ready returns nil, or the reason why the node would not serve requests.
	Ready() error
}

// LocalNode is a node as its local socket serves it.
type LocalNode interface {
	// DrainSelf starts a drain that lasts as long as this process, and returns its progress. Repeated
	// calls have no further effect.
	DrainSelf() DrainState
	// SelfState returns the progress of this drain.
	SelfState() DrainState
}
