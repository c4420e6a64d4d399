package route

import "strconv"

// Refusal is why a node did not run a request for a shard. The owner sends it to the ingress as the
// value of Shardway-Refused.
type Refusal uint8 //nolint:errname // mainly a reason, and an error only for Cluster.Admit

const (
	// RefusedNotOwner means that the shard has another owner, or none.
	RefusedNotOwner Refusal = iota + 1 //nolint:errname // see Refusal
	// RefusedHeld means that the shard is held: it moves, or all shards are paused.
	RefusedHeld //nolint:errname // see Refusal
	// RefusedNoLease means that the node has no lease.
	RefusedNoLease //nolint:errname // see Refusal
	// RefusedNoApp means that the app accepted no connection. Nothing was sent, so the ingress may
	// wait and try again. Only the proxy uses it.
	RefusedNoApp //nolint:errname // see Refusal
	// RefusedBusy means that every connection to the app is in use. Only the proxy uses it.
	RefusedBusy //nolint:errname // see Refusal
	// RefusedStopping means that the owner process ends the stream because it stops. It says nothing
	// about the shard. Only the proxy uses it.
	RefusedStopping //nolint:errname // see Refusal
)

// String returns the value of Shardway-Refused.
func (r Refusal) String() string {
	switch r {
	case RefusedNotOwner:
		return "not-owner"
	case RefusedHeld:
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

// Error makes a Refusal the error of Cluster.Admit. A value of one byte becomes an error without an
// allocation.
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

// RefusalFor returns why a node with this route for a shard does not serve the shard.
func RefusalFor(route *Route) Refusal {
	switch {
	case route.Kind != Held:
		return RefusedNotOwner
	case route.Reason == ReasonNoLease:
		return RefusedNoLease
	case route.Reason == ReasonOrphaned:
		return RefusedNotOwner
	}
	return RefusedHeld
}
