package admin

import (
	"context"
	"errors"
)

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

// Errors of actions.
var (
	// ErrNoLeader means that the action needs a leader, and none is known.
	ErrNoLeader = errors.New("no leader")
	// ErrUnknownNode means that the cluster has no such node.
	ErrUnknownNode = errors.New("unknown node")
	// ErrRefused means that the action would cause harm now. The wrapping error must contain the
	// reason and an alternative.
	ErrRefused = errors.New("refused")
	// ErrInvalid means that the action can never succeed. The wrapping error must contain the
	// parameter, its value, the reason and an alternative.
	ErrInvalid = errors.New("invalid")
	// ErrUnknown means that the action may have succeeded, or may still succeed.
	ErrUnknown = errors.New("outcome unknown")
)
