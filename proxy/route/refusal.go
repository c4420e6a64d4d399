package route

import "strconv"

// Refusal is the reason why a node did not run a request for a shard. If the request was forwarded, the
// node returns it to the ingress as the value of the header Shardway-Refused.
type Refusal uint8 //nolint:errname // mainly a reason, and an error only for Cluster.Admit

const (
	// RefusedNotOwner means that the shard has another owner or no owner.
	RefusedNotOwner Refusal = iota + 1 //nolint:errname // see Refusal
	// RefusedQueued means that requests for the shard are queued for now (a route of kind Queued). The
	// shard moves to another node, or all shards are paused.
	RefusedQueued //nolint:errname // see Refusal
	// RefusedNoLease means that the node has no lease.
	RefusedNoLease //nolint:errname // see Refusal
	// RefusedNoApp means that the app accepted no connection. Nothing was sent to the app, so the
	// ingress may wait and try again. Only the proxy uses it.
	RefusedNoApp //nolint:errname // see Refusal
	// RefusedBusy means that every connection to the app is in use. Only the proxy uses it.
	RefusedBusy //nolint:errname // see Refusal
	// RefusedStopping means that the owner's process is stopping and therefore ends the stream. It
	// says nothing about the shard. Only the proxy uses it.
	RefusedStopping //nolint:errname // see Refusal
)

// String returns the value of Shardway-Refused.
func (r Refusal) String() string {
	switch r {
	case RefusedNotOwner:
		return "not-owner"
	case RefusedQueued:
		return "held"
	case RefusedNoLease:
		return "no-lease"
	case RefusedNoApp:
		return "no-app"
	case RefusedBusy:
		return "busy"
	case RefusedStopping:
		return "ended"
	}
	return "Refusal(" + strconv.Itoa(int(r)) + ")"
}

// Error implements error, so Cluster.Admit can return a Refusal. Converting a one-byte value to an
// interface does not allocate.
func (r Refusal) Error() string { return "proxy: refused: " + r.String() }

// ParseRefusal reads the value of Shardway-Refused. ok is false for an unknown value.
func ParseRefusal(text []byte) (r Refusal, ok bool) {
	for r := RefusedNotOwner; r <= RefusedStopping; r++ {
		if string(text) == r.String() {
			return r, true
		}
	}
	return 0, false
}

// RefusalFor returns why a node with this route for a shard refuses requests for it. Two of the
// reasons of a Queued route have a more specific refusal.
func RefusalFor(route *Route) Refusal {
	switch {
	case route.Kind != Queued:
		return RefusedNotOwner
	case route.Reason == ReasonNoLease:
		return RefusedNoLease
	case route.Reason == ReasonOrphaned:
		return RefusedNotOwner // requests are queued until the shard gets an owner
	}
	return RefusedQueued
}
