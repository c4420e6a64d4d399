package admin

import (
	"context"
	"errors"
)

// Cluster is what the admin server asks of the node it belongs to. Slices and maps
// in the answers are the caller's to read and nobody's to change afterwards.
type Cluster interface {
	Readiness
	Status() Status
	// Shards lists every shard in order.
	Shards() ShardList
	// Idle says why an owner, empty for that of an orphan, does not serve as far as the
	// node knows; empty: it does.
	Idle(owner string) string
	// Endpoints lists every announced endpoint, sorted by node, then name.
	Endpoints() []Endpoint
	// Map returns the committed map: epoch 0 and no owners before the first.
	Map() Map
	// WaitMap returns once the committed map's epoch is above after, or ctx ends.
	WaitMap(ctx context.Context, after uint64)
	// Backup returns the control state as a file. An error of no cluster yet wraps
	// ErrRefused.
	Backup() ([]byte, error)
	// Do carries an action out, through the leader if it takes one, and returns
	// when it is decided. Its error is nil, one of the Err values below (wrapped
	// with the reason), or a *problem.Problem that goes to the client as it is.
	Do(ctx context.Context, a Action) error
}

// Readiness tells whether a node can serve: the function that admission asks.
type Readiness interface {
	// Ready returns nil, or an error that says why requests would not be served.
	Ready() error
}

// What an action can fail with.
var (
	// ErrNoLeader reports that the action needs a leader and none is known.
	ErrNoLeader = errors.New("no leader")
	// ErrUnknownNode reports that the cluster has no such node.
	ErrUnknownNode = errors.New("unknown node")
	// ErrRefused reports that the action would do harm now; wrap it with why and
	// with what to do instead.
	ErrRefused = errors.New("refused")
	// ErrInvalid reports that what is asked for can never be; wrap it with the key,
	// its value, why, and what to ask for instead.
	ErrInvalid = errors.New("invalid")
	// ErrUnknown reports that the action may have been carried out, and may be yet.
	ErrUnknown = errors.New("outcome unknown")
)
