package api

import "time"

// ProcessList is the response of GET /v1/processes: the processes of the app that the responding node runs (--exec).
type ProcessList struct {
	Node      string           `json:"node"`
	Max       int              `json:"max"`       // --exec-max
	Processes []Process        `json:"processes"` // by shard and key
	Failing   []FailingProcess `json:"failing"`   // worst first
}

// Process is a process of the app.
type Process struct {
	Shard   uint32 `json:"shard"`
	Epoch   uint64 `json:"epoch"`              // ownership epoch in which it was started
	KeyHash string `json:"key_hash,omitempty"` // absent with --exec-per shard
	Key     string `json:"key,omitempty"`      // only with --access-log-keys
	State   string `json:"state"`              // starting, ready or stopping
	PID     int    `json:"pid,omitempty"`
	Addr    string `json:"addr,omitempty"`
	Dir     string `json:"dir,omitempty"`
	// StartedAt is absent while the process waits for its start.
	StartedAt *time.Time `json:"started_at,omitempty"`
	// IdleMS is the time since the last request in milliseconds; 0 while the process is in use.
	IdleMS int64 `json:"idle_ms"`
}

// FailingProcess is a key or shard whose processes fail repeatedly.
type FailingProcess struct {
	Shard    uint32 `json:"shard"`
	KeyHash  string `json:"key_hash,omitempty"`
	Key      string `json:"key,omitempty"`
	Failures int    `json:"failures"` // consecutive failures
	Error    string `json:"error"`    // of the last one
}

// ProcessService serves /v1/processes.
type ProcessService interface {
	Processes() ProcessList
}
