package admin

import "fmt"

// Verb is the kind of an Action.
type Verb int

// The verbs, each POST /v1/<its String>.
const (
	// Remove takes a node out of the cluster for good.
	Remove Verb = iota + 1
	// StepDown makes the leader hand over its leadership.
	StepDown
	// Drain lets a node own nothing, until Uncordon: it stays ready and forwards.
	Drain
	// Cordon lets a node get no shards that it does not have, until Uncordon.
	Cordon
	// Uncordon ends both.
	Uncordon
	// Pause holds up planned moves for a while: only what is lost is placed.
	Pause
	// Resume ends that.
	Resume
	// Weigh gives a node another weight than its own.
	Weigh
	// Pin says where a shard belongs, Unpin that it belongs nowhere.
	Pin
	Unpin
	// Quarantine has requests of a key answered 503 before any owner sees them, Lift ends
	// that.
	Quarantine
	Lift
	// AppRestarted confirms that a node's app holds no old copy of a shard that the node does not
	// own, so that every shard may return to it.
	AppRestarted
)

// verb is what the package knows of one.
type verbSpec struct {
	name    string
	params  []string // its arguments
	example string   // of them, in JSON
}

func verbSpecs() []verbSpec {
	return []verbSpec{
		Remove:   {"remove", []string{"node", "force"}, `{"node":"n3"}`},
		StepDown: {"step-down", nil, `{}`},
		Drain:    {"drain", []string{"node", "force", "gently", "safe", "release_timeout"}, `{"node":"n3"}`},
		Cordon:   {"cordon", []string{"node"}, `{"node":"n3"}`},
		Uncordon: {"uncordon", []string{"node"}, `{"node":"n3"}`},
		Pause:    {"pause", []string{"for"}, `{"for":"30m"}`},
		Resume:   {"resume", nil, `{}`},
		Weigh:    {"weight", []string{"node", "weight"}, `{"node":"n3","weight":2}`},
		Pin:      {"pin", []string{"shard", "key", "node", "zone"}, `{"key":"alice","node":"n3"}`},
		Unpin:    {"unpin", []string{"shard", "key"}, `{"key":"alice"}`},

		Quarantine: {"quarantine", []string{"key", "hash", "shard", "for"}, `{"key":"alice","for":"1h"}`},
		Lift:       {"lift", []string{"key", "hash", "shard"}, `{"key":"alice"}`},

		AppRestarted: {"app-restarted", []string{"node"}, `{"node":"n3"}`},
	}
}

// about returns what is known of a verb.
func (v Verb) spec() (verbSpec, bool) {
	all := verbSpecs()
	if v < Remove || int(v) >= len(all) {
		return verbSpec{}, false
	}
	return all[v], true
}

// String returns the verb's name in paths and logs.
func (v Verb) String() string {
	if k, ok := v.spec(); ok {
		return k.name
	}
	return fmt.Sprintf("Verb(%d)", int(v))
}

// MarshalText writes a verb by its name.
func (v Verb) MarshalText() ([]byte, error) {
	if k, ok := v.spec(); ok {
		return []byte(k.name), nil
	}
	return nil, fmt.Errorf("admin: no such action: %d", int(v))
}

// UnmarshalText reads a verb by its name.
func (v *Verb) UnmarshalText(b []byte) error {
	for known, k := range verbSpecs() {
		if known > 0 && string(b) == k.name {
			*v = Verb(known)
			return nil
		}
	}
	return fmt.Errorf("admin: no such action: %q", b)
}

// Action is something an operator asks the cluster to do. Its JSON form is also
// what a node may send to the leader.
type Action struct {
	Verb Verb `json:"action"`
	// Node is whom it is about; empty where nobody is meant, or the leader of the
	// moment (StepDown), or a zone (Pin).
	Node string `json:"node,omitempty"`
	// Force makes Remove take the node's shards at once: the operator vouches
	// that it is gone and its app stopped. It makes Drain leave too few voters.
	Force bool `json:"force,omitempty"`
	// For is how long a Pause or a Quarantine lasts, such as "30m"; empty for a
	// Quarantine: until Lift.
	For string `json:"for,omitempty"`
	// Gently is within what time Drain moves what is idle before it moves the rest, such as
	// "30s"; empty: all goes at once.
	Gently string `json:"gently,omitempty"`
	// Safe makes Drain leave a shard at the node that its app does not release.
	Safe bool `json:"safe,omitempty"`
	// ReleaseTimeout replaces the node's --release-timeout for a Drain, from 10ms to 1m, such
	// as "30s"; empty: it does not.
	ReleaseTimeout string `json:"release_timeout,omitempty"`
	// Weight is what Weigh sets; zero: the node's own again.
	Weight uint32 `json:"weight,omitempty"`
	// Shard is what Pin and Unpin are about, and where the key of Quarantine and Lift is,
	// which Hash names as key_hash does in access logs; Under says which secret that is
	// made under. Zone is where it belongs unless at Node.
	Shard uint32 `json:"shard,omitempty"`
	Zone  string `json:"zone,omitempty"`
	Hash  string `json:"key_hash,omitempty"`
	Under uint32 `json:"under,omitempty"`
	// By tells the log who asked, and from where.
	By string `json:"by,omitempty"`
}
