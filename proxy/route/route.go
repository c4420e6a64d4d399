package route

import "strconv"

// Kind says what becomes of a request for a shard.
type Kind uint8

const (
	// Held means that the request waits here.
	Held Kind = iota + 1
	// Local means that the app behind this node serves it.
	Local
	// Remote means that another node serves it.
	Remote
)

// String returns the word that stands in metrics and logs.
func (k Kind) String() string {
	switch k {
	case Held:
		return "queued"
	case Local:
		return "local"
	case Remote:
		return "remote"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Reason says why a shard is held.
type Reason uint8

const (
	// ReasonMoving means that a proposed map gives the shard to another node.
	ReasonMoving Reason = iota + 1
	// ReasonOrphaned means that the committed map gives the shard to nobody.
	ReasonOrphaned
	// ReasonNoMap means that no map has been committed yet.
	ReasonNoMap
	// ReasonPaused means that all shards are held, as rebalance mode stop-the-world wants it.
	ReasonPaused
	// ReasonNoLease means that this node owns the shard and has no lease.
	ReasonNoLease
	// ReasonAcquiring means that the app behind this node has not acquired the shard
	// yet: it is told to before its first request.
	ReasonAcquiring
	// ReasonAbsent means that the owner restarts in place and is waited for.
	ReasonAbsent
	// ReasonRefused means that the owner refused for now. Routes never have it;
	// requests that wait after a 421 are counted under it.
	ReasonRefused
	// ReasonUnreachable means that the owner, or the app, took no connection.
	// Routes never have it.
	ReasonUnreachable

	ReasonCount = int(ReasonUnreachable) + 1
)

// String returns the word that stands in metrics, logs and error answers.
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
	case ReasonAbsent:
		return "restarting"
	case ReasonRefused:
		return "refused"
	case ReasonUnreachable:
		return "unreachable"
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

// Route is what a Table says about one shard.
type Route struct {
	Kind Kind
	// Node is the owner's id, of a Remote route; other kinds leave it empty.
	Node string
	// Reason is set for Held only.
	Reason Reason
	// Epoch is the shard's ownership epoch in the committed map. It lets a PUT
	// or DELETE that broke off at another node be sent again; with zero it is
	// not.
	Epoch uint64
}
