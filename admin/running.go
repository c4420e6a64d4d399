package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// RunningList is the answer of GET /v1/running: what each node does at this moment, as it
// tells itself.
type RunningList struct {
	Nodes []Running `json:"nodes"` // sorted by id
	// Silent are the nodes that did not tell in time.
	Silent []string `json:"silent"`
}

// Running is what one node does. What it does not tell, being of an older version, is -1
// or empty.
type Running struct {
	Node     string `json:"node"`
	Version  string `json:"version"`
	LeaseMS  int64  `json:"lease_ms"` // what is left of its lease; 0: it admits nothing
	Requests int    `json:"requests"` // that its app runs
	Sockets  int    `json:"sockets"`  // upgraded connections to its app
	Waiting  int    `json:"waiting"`  // requests that it holds
	Held     int    `json:"held"`     // shards that its app holds: Shardway-Hold
}

// Asker asks the other nodes. A Cluster that is one too serves /v1/running.
type RunningAPI interface {
	// Running asks the nodes, at most once a second whoever wants it, and returns within a
	// second of that. What it returns is nobody's to change.
	Running(ctx context.Context) RunningList
}

func (s *Server) running(w http.ResponseWriter, r *http.Request) error {
	asker, ok := s.cluster.(RunningAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node asks no others")
	}
	if _, err := query(r); err != nil {
		return err
	}
	list := asker.Running(r.Context())
	list.Nodes, list.Silent = nonNil(list.Nodes), nonNil(list.Silent)
	return writeJSON(w, list)
}
