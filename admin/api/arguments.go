package api

// Arguments are the parameters of an action in a request. nil means that a parameter is absent.
type Arguments struct {
	Node   string  `json:"node,omitempty"`
	To     string  `json:"to,omitempty"`
	Force  bool    `json:"force,omitempty"`
	For    string  `json:"for,omitempty"`
	Weight *uint64 `json:"weight,omitempty"`
	// Service is the name of a service. Shards is the number of shards of a new service.
	Service string  `json:"service,omitempty"`
	Shards  *uint64 `json:"shards,omitempty"`
	Shard   *uint64 `json:"shard,omitempty"`
	Key     *string `json:"key,omitempty"`
	Zone    string  `json:"zone,omitempty"`
	// Fallbacks are at most MaxPinFallbacks nodes.
	Fallbacks []string `json:"fallbacks,omitempty"`
	Role      string   `json:"role,omitempty"`
	Ticket    *uint64  `json:"ticket,omitempty"`
	Hash      string   `json:"hash,omitempty"`
	IdleFirst string   `json:"idle_first,omitempty"`
	Safe      bool     `json:"safe,omitempty"`
	// ReleaseTimeout is a duration such as "30s".
	ReleaseTimeout string `json:"release_timeout,omitempty"`
	Reason         string `json:"reason,omitempty"`
}

// BreakArguments are the arguments of POST /v1/websockets.
type BreakArguments struct {
	Break bool `json:"move_test"`
	All   bool `json:"all,omitempty"`
	// Service is the service of Shard.
	Service string  `json:"service,omitempty"`
	Key     *string `json:"key,omitempty"`
	Shard   *uint64 `json:"shard,omitempty"`
	Gap     bool    `json:"gap,omitempty"`
	// Reason is why an operator requests the test, for the log and the events.
	Reason string `json:"reason,omitempty"`
}
