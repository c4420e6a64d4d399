package planted

import (
	"fmt"
	"slices"
	"strings"
)

// Bug is one planted bug.
type Bug int

const (
	// TwoOwners makes a node acknowledge a map before what runs for its moving
	// shards has ended: in node/agent.go.
	TwoOwners Bug = iota + 1
	// SameEpoch makes the new owner tell its app the ownership epoch of the old
	// one: in node/router.go.
	SameEpoch
	// StaleEpoch makes a node that gets a shard again tell its app the epoch that it
	// had the first time: in node/router.go.
	StaleEpoch
	// DoubleRun sends again what was sent and not answered, whatever its method: in
	// proxy/run.go.
	DoubleRun
	// SwallowedAnswer forgets a request that has waited for its shard, and leaves its
	// client waiting: in proxy/exchange.go.
	SwallowedAnswer
	// NoRun says with the status 200 that the app cannot be reached: in
	// proxy/answer.go.
	NoRun
	// NoLease never lets a lease end, so that a node which was cut off goes on
	// serving: in node/router.go.
	NoLease
	// OtherShard sends a request to the shard of the one before it on its
	// connection: in proxy/exchange.go.
	OtherShard
)

var names = [...]string{
	TwoOwners: "two-owners", SameEpoch: "same-epoch", StaleEpoch: "stale-epoch", DoubleRun: "double-run",
	SwallowedAnswer: "swallowed-answer", NoRun: "no-run", NoLease: "no-lease", OtherShard: "other-shard",
}

// String is the name that Variable takes.
func (b Bug) String() string {
	if b < 1 || int(b) >= len(names) {
		return fmt.Sprintf("Bug(%d)", int(b))
	}
	return names[b]
}

// Parse finds a bug by its name; the empty one is none, zero.
func Parse(name string) (Bug, error) {
	if name == "" {
		return 0, nil
	}
	if i := slices.Index(names[:], name); i > 0 {
		return Bug(i), nil
	}
	return 0, fmt.Errorf("planted: %s=%q: no such bug; use one of %s", Variable, name, strings.Join(names[1:], ", "))
}
