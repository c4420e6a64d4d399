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
)

// String returns the verb's name in paths and logs.
func (v Verb) String() string {
	switch v {
	case Remove:
		return "remove"
	case StepDown:
		return "step-down"
	}
	return fmt.Sprintf("Verb(%d)", int(v))
}

// MarshalText writes a verb by its name.
func (v Verb) MarshalText() ([]byte, error) {
	switch v {
	case Remove, StepDown:
		return []byte(v.String()), nil
	}
	return nil, fmt.Errorf("admin: no such action: %d", int(v))
}

// UnmarshalText reads a verb by its name.
func (v *Verb) UnmarshalText(b []byte) error {
	for known := Remove; known <= StepDown; known++ {
		if string(b) == known.String() {
			*v = known
			return nil
		}
	}
	return fmt.Errorf("admin: no such action: %q", b)
}

// Action is something an operator asks the cluster to do. Its JSON form is also
// what a node may send to the leader.
type Action struct {
	Verb Verb `json:"action"`
	// Node is whom it is about: required by Remove; for StepDown empty, as the
	// leader of the moment is meant.
	Node string `json:"node,omitempty"`
	// Force makes Remove take the node's shards at once: the operator vouches
	// that it is gone and its app stopped.
	Force bool `json:"force,omitempty"`
	// By tells the log who asked, and from where.
	By string `json:"by,omitempty"`
}
