package api

import "fmt"

// Verb is the operation that an Action requests, such as Drain.
type Verb int

// The verbs, each POST /v1/<its String>.
const (
	// Remove removes a node from the cluster permanently.
	Remove Verb = iota + 1
	// StepDown makes the leader transfer its leadership.
	StepDown
	// Drain moves all shards off a node until Uncordon. The node stays ready and forwards requests.
	Drain
	// Cordon prevents a node from receiving further shards until Uncordon.
	Cordon
	// Uncordon ends Drain, Cordon and MarkFailed.
	Uncordon
	// Pause postpones planned moves for some time. During a pause only orphaned shards get an owner.
	Pause
	// Resume ends Pause.
	Resume
	// Weigh overrides the configured weight of a node.
	Weigh
	// Pin assigns a shard to a node or a zone. Unpin ends this.
	Pin
	Unpin
	// Quarantine makes nodes respond with 503 to requests for a key, before an owner receives them.
	// Lift ends this.
	Quarantine
	Lift
	// AppRestarted confirms that a node's app holds no old copy of a shard that the node does not
	// own, so that every shard may return to it.
	AppRestarted
	// SetRole restricts shards to nodes with a role. ClearRole ends this.
	SetRole
	ClearRole
	// Rebalance makes the leader propose a new map now. It is refused if no shard would move.
	Rebalance
	// MarkFailed excludes a node from the map as if it had failed, until Uncordon. The node remains a
	// member of the cluster.
	MarkFailed
	// AddService adds a service with its own range of shards. RemoveService removes a service that no node
	// runs and whose shards have no owner.
	AddService
	RemoveService
	// Approve lets a node join that has requested it. Refuse refuses its request for a Reason.
	Approve
	Refuse
)

// verbSpec describes a verb.
type verbSpec struct {
	name    string
	params  []string // names of the arguments, except reason, which each verb has
	example string   // arguments as JSON, for error messages
}

// verbSpecs returns the specifications, indexed by verb.
func verbSpecs() []verbSpec {
	return []verbSpec{
		Remove:   {"remove", []string{"node", "force"}, `{"node":"n3"}`},
		StepDown: {"step-down", []string{"to"}, `{"to":"n3"}`},
		Drain:    {"drain", []string{"node", "force", "idle_first", "safe", "release_timeout"}, `{"node":"n3"}`},
		Cordon:   {"cordon", []string{"node"}, `{"node":"n3"}`},
		Uncordon: {"uncordon", []string{"node"}, `{"node":"n3"}`},
		Pause:    {"pause", []string{"for"}, `{"for":"30m"}`},
		Resume:   {"resume", nil, `{}`},
		Weigh:    {"weight", []string{"node", "weight"}, `{"node":"n3","weight":2}`},
		Pin:      {"pin", []string{"service", "shard", "key", "node", "fallbacks", "zone"}, `{"key":"alice","node":"n3"}`},
		Unpin:    {"unpin", []string{"service", "shard", "key"}, `{"key":"alice"}`},

		Quarantine: {"quarantine", []string{"service", "key", "hash", "shard", "for"}, `{"key":"alice","for":"1h"}`},
		Lift:       {"lift", []string{"service", "key", "hash", "shard"}, `{"key":"alice"}`},

		AppRestarted: {"app-restarted", []string{"node"}, `{"node":"n3"}`},
		SetRole:      {"set-role", []string{"role"}, `{"role":"app"}`},
		ClearRole:    {"clear-role", nil, `{}`},
		Rebalance:    {"rebalance", nil, `{"reason":"new hardware"}`},
		MarkFailed:   {"mark-failed", []string{"node"}, `{"node":"n3"}`},

		AddService:    {"add-service", []string{"service", "shards"}, `{"service":"chat","shards":64}`},
		RemoveService: {"remove-service", []string{"service"}, `{"service":"chat"}`},

		Approve: {"approve", []string{"node", "ticket"}, `{"node":"n4"}`},
		Refuse:  {"refuse", []string{"node", "ticket"}, `{"node":"n4","reason":"unknown node"}`},
	}
}

// spec returns the specification of a verb. ok is false if v is unknown.
func (v Verb) spec() (spec verbSpec, ok bool) {
	all := verbSpecs()
	if v < Remove || int(v) >= len(all) {
		return verbSpec{}, false
	}
	return all[v], true
}

// Params returns the names of the arguments of a verb. It returns nil if v is unknown.
func (v Verb) Params() []string {
	spec, ok := v.spec()
	if !ok {
		return nil
	}
	return append(spec.params, "reason")
}

// Example returns valid arguments of a verb as JSON, for error messages.
func (v Verb) Example() string {
	spec, _ := v.spec()
	return spec.example
}

// String returns the verb's name in paths and logs.
func (v Verb) String() string {
	if spec, ok := v.spec(); ok {
		return spec.name
	}
	return fmt.Sprintf("Verb(%d)", int(v))
}

// MarshalText returns the name of the verb.
func (v Verb) MarshalText() ([]byte, error) {
	if spec, ok := v.spec(); ok {
		return []byte(spec.name), nil
	}
	return nil, fmt.Errorf("admin: unknown action %d", int(v))
}

// UnmarshalText sets v to the verb with this name.
func (v *Verb) UnmarshalText(b []byte) error {
	for known, spec := range verbSpecs() {
		if known > 0 && string(b) == spec.name {
			*v = Verb(known)
			return nil
		}
	}
	return fmt.Errorf("admin: unknown action %q", b)
}

// Action is a request of an operator to the cluster: an operation and its arguments. Nodes send its JSON
// form to the leader. The comment of a field names the verbs that use the field.
type Action struct {
	// Verb is the operation.
	Verb Verb `json:"action"`
	// Node is the node that the action affects. It is empty if the action affects no node, the
	// current leader (StepDown) or a zone (Pin).
	Node string `json:"node,omitempty"`
	// To is the node that becomes leader after StepDown. It must be a voter. An empty value means that the
	// leader selects a voter.
	To string `json:"to,omitempty"`
	// Force makes Remove reassign the shards immediately: the operator guarantees that the node has
	// stopped, and its app as well. It makes Drain accept that too few voters remain.
	Force bool `json:"force,omitempty"`
	// For is how long a Pause or a Quarantine lasts, such as "30m". An empty value means that a
	// Quarantine lasts until Lift.
	For string `json:"for,omitempty"`
	// IdleFirst is how long Drain moves only idle shards before it moves the others, such as "30s". An
	// empty value means that Drain moves all shards immediately.
	IdleFirst string `json:"idle_first,omitempty"`
	// Safe makes Drain keep a shard at the node until its app has released the shard.
	Safe bool `json:"safe,omitempty"`
	// ReleaseTimeout overrides --release-timeout of the node for a Drain, from 10ms to 1m. An empty
	// value means no override.
	ReleaseTimeout string `json:"release_timeout,omitempty"`
	// Weight is the weight that Weigh sets. Zero restores the configured weight of the node.
	Weight uint32 `json:"weight,omitempty"`
	// Service is the service of AddService and RemoveService, or the service that has the Shard. It is empty in
	// a cluster without a list of services.
	Service string `json:"service,omitempty"`
	// Shards is the number of shards of AddService.
	Shards uint32 `json:"shards,omitempty"`
	// Shard is the shard of Pin and Unpin, or the shard of the key of Quarantine and Lift. If Service is not
	// empty, it is a number within the service.
	Shard uint32 `json:"shard,omitempty"`
	// Zone is the zone to which Pin assigns the shard, if Node is empty.
	Zone string `json:"zone,omitempty"`
	// Fallbacks are the nodes of a Pin after Node, in order of preference. The shard belongs to the
	// first of all nodes of the pin that can own it.
	Fallbacks []string `json:"fallbacks,omitempty"`
	// Role is the role of SetRole.
	Role string `json:"role,omitempty"`
	// Ticket is the ticket of the join request of Approve and Refuse. Zero means the current request of the Node.
	Ticket uint64 `json:"ticket,omitempty"`
	// Hash is the key_hash of the key of Quarantine and Lift, as in access logs.
	Hash string `json:"key_hash,omitempty"`
	// Under identifies the secret with which Hash was computed.
	Under uint32 `json:"under,omitempty"`
	// Reason is why an operator requests the action, for the log, the events and the policy. Only
	// Rebalance and Refuse require it.
	Reason string `json:"reason,omitempty"`
	// By is the name and the address of the caller, for the log.
	By string `json:"by,omitempty"`
}

// ActionResult is the response to an action: the action as the server has parsed it.
type ActionResult struct {
	Action
	// Warning is a consequence that the caller may not expect. Empty means that there is none.
	Warning string `json:"warning,omitempty"`
}
