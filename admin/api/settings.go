package api

import "context"

// Timing contains the cluster-wide settings that ensure a single owner of each shard. Durations
// have the form of the flags of run, such as "500ms".
type Timing struct {
	Lease         string `json:"lease,omitempty"`
	DeadAfter     string `json:"dead_after,omitempty"`
	Takeover      string `json:"takeover,omitempty"`       // timeout, lease or immediate
	RebalanceMode string `json:"rebalance_mode,omitempty"` // incremental or stop-the-world
}

// TimingState is the response of GET and POST /v1/settings.
type TimingState struct {
	Timing
	// Since is the index of the log entry that set these values. Before has the previous values.
	Since  uint64 `json:"since"`
	Before Timing `json:"before"`
	// BeforeCounts is how much longer timeouts use the larger of the two values: "0s" means that the
	// new values apply. Only a leader can report it; otherwise it is empty.
	BeforeCounts string `json:"before_counts,omitempty"`
}

// SettingsService serves /v1/settings.
type SettingsService interface {
	// Timing returns the timing reported by the leader or, without a leader, by the log of this node.
	// ok is false if the node does not belong to a cluster yet.
	Timing(ctx context.Context) (TimingState, bool)
	// ChangeTiming changes the fields that are not empty and returns once the leader has applied the change.
	// Its errors are those of Cluster.Do.
	ChangeTiming(ctx context.Context, change Timing, by string) (TimingState, error)
}
