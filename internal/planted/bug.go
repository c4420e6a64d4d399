package planted

import (
	"fmt"
	"slices"
	"strings"
)

// Bug is one planted bug.
type Bug int

const (
	// TwoOwners: a node acknowledges a map before what runs for its moving shards
	// has ended. (node/agent.go)
	TwoOwners Bug = iota + 1
	// SameEpoch: the new owner tells its app the ownership epoch of the old one.
	// (node/router.go)
	SameEpoch
	// StaleEpoch: a node that gets a shard again tells its app the epoch that it had
	// the first time. (node/router.go)
	StaleEpoch
	// DoubleRun: what was sent and not answered is sent again, whatever its method.
	// (proxy/run.go)
	DoubleRun
	// SwallowedAnswer: a request that has waited for its shard is forgotten, its
	// client left waiting. (proxy/exchange.go)
	SwallowedAnswer
	// NoRun: that the app cannot be reached is said with the status 200.
	// (proxy/answer.go)
	NoRun
	// NoLease: a lease never ends, so that a node which was cut off goes on serving.
	// (node/router.go)
	NoLease
	// OtherShard: a request goes to the shard of the one before it on its
	// connection. (proxy/exchange.go)
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
