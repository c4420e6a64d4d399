package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// HotList is the answer of GET /v1/hot: what the cluster is busy with, the most first, as
// means over about ten seconds.
type HotList struct {
	// Shards are the 64 that keep apps busiest, of the 64 busiest of each node.
	Shards []HotShard `json:"shards"`
	// Keys are the 32 that clients ask for most, estimated from a sample.
	Keys []HotKey `json:"keys"`
	// Silent are the nodes that did not tell their load in time.
	Silent []string `json:"silent"`
}

// HotShard is the load of a shard at the node that runs it.
type HotShard struct {
	Shard    uint32  `json:"shard"`
	Node     string  `json:"node"`
	Requests float64 `json:"requests"` // per second
	Busy     float64 `json:"busy"`     // requests that the app runs at once, sockets aside
	Bytes    float64 `json:"bytes"`    // per second, both ways
	Sockets  int32   `json:"sockets"`  // upgraded connections now
}

// HotKey is a key with its requests per second.
type HotKey struct {
	Shard uint32 `json:"shard"`
	Hash  string `json:"key_hash"`
	// Key is there only if a node has --access-log-keys.
	Key      string  `json:"key,omitempty"`
	Requests float64 `json:"requests"`
}

// Gauge knows what the cluster is busy with. A Cluster that is one too serves /v1/hot.
type HotAPI interface {
	// Hot asks the other nodes, at most once a second whoever wants it, and returns within
	// two seconds. What it returns is nobody's to change.
	Hot(ctx context.Context) HotList
}

func (s *Server) hot(w http.ResponseWriter, r *http.Request) error {
	gauge, ok := s.cluster.(HotAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node counts no load")
	}
	if _, err := query(r); err != nil {
		return err
	}
	return writeJSON(w, gauge.Hot(r.Context()))
}

// Hot returns what the cluster is busy with.
func (c *Client) Hot(ctx context.Context) (HotList, error) {
	return getJSON[HotList](ctx, c, "/v1/hot", nil)
}
