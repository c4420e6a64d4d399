package api

// Policy is the response of GET /v1/policy: the requests of operators that affect the map. The
// verbs from Drain on change it.
type Policy struct {
	Drained  []string `json:"drained"`  // sorted
	Cordoned []string `json:"cordoned"` // sorted
	// MarkedFailed has the nodes that operators have marked as failed, sorted.
	MarkedFailed []string `json:"marked_failed"`
	// GradualDrains has the nodes with a gradual drain, sorted.
	GradualDrains []GradualDrain    `json:"emptying"`
	Weights       map[string]uint32 `json:"weights"`
	Pins          []PinnedShard     `json:"pins"` // ascending
	// Quarantined has the keys in quarantine, ascending by shard.
	Quarantined []QuarantinedKey `json:"quarantined"`
	// Reasons has the reasons that operators gave for entries of the other fields. An entry without a
	// reason is not in it.
	Reasons []PolicyReason `json:"reasons"`
	// Role is the role to which shards are restricted; empty means no restriction.
	Role string `json:"role,omitempty"`
	// Pause is the duration of a pause of planned moves; empty means no pause. A new leader starts
	// the duration again.
	Pause string `json:"pause,omitempty"`
	// Since is the index of the log entry that changed the policy last; 0 means no change.
	Since uint64 `json:"since"`
}

// GradualDrain is a node with a gradual drain: idle shards move first, the others after the
// duration IdleFirst. A new leader starts the duration again.
type GradualDrain struct {
	Node      string `json:"node"`
	IdleFirst string `json:"idle_first"`
}

// PolicyReason is the reason that an operator gave for an action that is in force.
type PolicyReason struct {
	// Action is the name of the action: cordon, drain, mark-failed, weight, pin, pause, set-role or quarantine.
	Action string `json:"action"`
	// Node is the node of a cordon, a drain, a mark-failed or a weight.
	Node string `json:"node,omitempty"`
	// Shard is the shard of a pin, or of the key in quarantine.
	Shard *uint32 `json:"shard,omitempty"`
	// Hash is the key_hash of the key in quarantine.
	Hash   string `json:"key_hash,omitempty"`
	Reason string `json:"reason"`
}

// PinnedShard is a shard that is pinned to a node or to a zone.
type PinnedShard struct {
	Shard uint32 `json:"shard"`
	// Service and ServiceShard are as in Shard.
	Service      string  `json:"service,omitempty"`
	ServiceShard *uint32 `json:"service_shard,omitempty"`
	Node         string  `json:"node,omitempty"`
	Zone         string  `json:"zone,omitempty"`
	// Fallbacks are further nodes, in order of preference, for a shard that Node cannot own.
	Fallbacks []string `json:"fallbacks,omitempty"`
}

// PolicyService serves /v1/policy.
type PolicyService interface {
	// Policy returns the policy that this node has applied.
	Policy() Policy
}

// QuarantinedKey is a key in quarantine, identified by its shard and key_hash. Requests for it get
// 503.
type QuarantinedKey struct {
	Shard uint32 `json:"shard"`
	// Service and ServiceShard are the service of the key, and the number of the shard within it. They are only set
	// if the cluster has services.
	Service      string  `json:"service,omitempty"`
	ServiceShard *uint32 `json:"service_shard,omitempty"`
	Hash         string  `json:"key_hash"`
	// For is the duration of the quarantine; empty means until an operator ends it. A new leader starts the
	// duration again.
	For string `json:"for,omitempty"`
	// Known is false if the hash was computed with a secret that this node no longer has. The node
	// then admits requests for the key.
	Known bool `json:"known"`
}

// KeyHasher identifies keys without revealing them.
type KeyHasher interface {
	// Mark returns the shard and the key_hash of a key of a service. An empty service is the service default. The
	// error reports an unknown service.
	Mark(service, key string) (shard uint32, hash string, err error)
}
