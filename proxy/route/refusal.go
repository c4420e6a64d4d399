package route

import "strconv"

// Refusal tells why a node did not run a request for a shard. It travels from
// owner to ingress as the value of Shardway-Refused.
type Refusal uint8 //nolint:errname // a reason first, and an error only for Admit

const (
	// RefusedNotOwner means that the shard's owner is another node, or none.
	RefusedNotOwner Refusal = iota + 1 //nolint:errname // as above
	// RefusedHeld means that the shard is held: it moves, or all are paused.
	RefusedHeld //nolint:errname // as above
	// RefusedNoLease means that the node has no lease.
	RefusedNoLease //nolint:errname // as above
	// RefusedNoApp means that the app took no connection. Only this package uses
	// it: nothing was sent, so the ingress may wait and ask again.
	RefusedNoApp //nolint:errname // as above
	// RefusedBusy means that every connection to the app is in use. Only this
	// package uses it.
	RefusedBusy //nolint:errname // as above
	// RefusedEnded is the last word on a stream: its process ends it, and says nothing of
	// the shard. Only this package uses it. Nodes that do not know it take it for held.
	RefusedEnded //nolint:errname // as above
)

// String returns the value as it stands in Shardway-Refused.
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
	case RefusedEnded:
		return "ended"
	}
	return "Refusal(" + strconv.Itoa(int(r)) + ")"
}

// Error makes a Refusal the error of Cluster.Admit. Being one byte wide, it
// becomes an error without an allocation.
func (r Refusal) Error() string { return "proxy: refused: " + r.String() }

// ParseRefusal reads the value of Shardway-Refused; ok is false for any other.
func ParseRefusal(v []byte) (r Refusal, ok bool) {
	for r := RefusedNotOwner; r <= RefusedEnded; r++ {
		if string(v) == r.String() {
			return r, true
		}
	}
	return 0, false
}

// RefusalFor says why a node that finds r does not serve the shard.
func RefusalFor(r *Route) Refusal {
	switch {
	case r.Kind != Held:
		return RefusedNotOwner
	case r.Reason == ReasonNoLease:
		return RefusedNoLease
	case r.Reason == ReasonOrphaned:
		return RefusedNotOwner
	}
	return RefusedHeld
}
