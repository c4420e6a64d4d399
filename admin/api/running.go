package api

import "context"

// RunningList is the response of GET /v1/running: the current load of each node, as reported by
// the node.
type RunningList struct {
	Nodes []Running `json:"nodes"` // sorted by id
	// Unresponsive has the nodes that did not respond in time.
	Unresponsive []string `json:"unresponsive"`
}

// Running is the current load of one node. A field that a node of an older version does not report
// is -1 or empty.
type Running struct {
	Node     string `json:"node"`
	Version  string `json:"version"`
	LeaseMS  int64  `json:"lease_ms"`   // remaining lease; 0 means that the node admits no requests
	Requests int    `json:"requests"`   // in progress at its app
	Sockets  int    `json:"websockets"` // upgraded connections to its app
	Queued   int    `json:"queued"`     // queued requests
	Held     int    `json:"held"`       // shards that its app holds (Shardway-Hold)
}

// RunningService serves /v1/running.
type RunningService interface {
	// Running queries all nodes, at most once per second for all callers together, and returns within
	// 1 s. The caller must not modify the result.
	Running(ctx context.Context) RunningList
}
