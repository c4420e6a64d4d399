package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// Policy is the response of GET /v1/policy: the requests of operators that affect the map. The
// verbs from Drain on change it.
type Policy struct {
	Drained  []string `json:"drained"`  // sorted
	Cordoned []string `json:"cordoned"` // sorted
	// Emptying has the nodes with a gradual drain, sorted.
	Emptying []EmptyingNode    `json:"emptying"`
	Weights  map[string]uint32 `json:"weights"`
	Pins     []PinnedShard     `json:"pins"` // ascending
	// Quarantined has the keys in quarantine, ascending by shard.
	Quarantined []QuarantinedKey `json:"quarantined"`
	// Pause is the duration of a pause of planned moves; empty means no pause. A new leader starts
	// the duration again.
	Pause string `json:"pause,omitempty"`
	// Since is the index of the log entry that changed the policy last; 0 means no change.
	Since uint64 `json:"since"`
}

// EmptyingNode is a node with a gradual drain: idle shards move first, the others after the
// duration Gently. A new leader starts the duration again.
type EmptyingNode struct {
	Node      string `json:"node"`
	IdleFirst string `json:"idle_first"`
}

// PinnedShard is a shard that is pinned to a node or to a zone.
type PinnedShard struct {
	Shard uint32 `json:"shard"`
	Node  string `json:"node,omitempty"`
	Zone  string `json:"zone,omitempty"`
}

// PolicyAPI is the optional interface of a Cluster that serves /v1/policy.
type PolicyAPI interface {
	// Policy returns the policy that this node has applied.
	Policy() Policy
}

func (s *Server) policy(w http.ResponseWriter, r *http.Request) error {
	api, ok := s.cluster.(PolicyAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node has no policy")
	}
	if _, err := query(r); err != nil {
		return err
	}
	return writeJSON(w, api.Policy())
}

// Policy returns the policy that the node has applied.
func (c *Client) Policy(ctx context.Context) (Policy, error) {
	return getJSON[Policy](ctx, c, "/v1/policy", nil)
}
