package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// Policy is what operators have asked of the cluster's maps: the answer of GET
// /v1/policy. The verbs from Drain on change it.
type Policy struct {
	Drained  []string `json:"drained"`  // sorted
	Cordoned []string `json:"cordoned"` // sorted
	// Emptying are those that are drained gently, sorted.
	Emptying []EmptyingNode    `json:"emptying"`
	Weights  map[string]uint32 `json:"weights"`
	Pins     []PinnedShard     `json:"pins"` // ascending
	// Quarantined are the keys whose requests go nowhere, ascending by shard.
	Quarantined []QuarantinedKey `json:"quarantined"`
	// Pause is for how long planned moves were to wait, empty if they do not. The
	// leader counts it, anew after an election.
	Pause string `json:"pause,omitempty"`
	// Since is the index of the log entry that changed the policy last; 0: none did.
	Since uint64 `json:"since"`
}

// EmptyingNode is a node that is drained gently: first goes what is idle there, and the rest
// after a time that the leader counts, anew after an election.
type EmptyingNode struct {
	Node   string `json:"node"`
	Gently string `json:"gently"`
}

// PinnedShard is where a shard belongs: at a node or in a zone.
type PinnedShard struct {
	Shard uint32 `json:"shard"`
	Node  string `json:"node,omitempty"`
	Zone  string `json:"zone,omitempty"`
}

// Policed knows a policy. A Cluster that is one too serves /v1/policy.
type PolicyAPI interface {
	// Policy returns what this node's log says.
	Policy() Policy
}

func (s *Server) policy(w http.ResponseWriter, r *http.Request) error {
	policed, ok := s.cluster.(PolicyAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node has no policy")
	}
	if _, err := query(r); err != nil {
		return err
	}
	return writeJSON(w, policed.Policy())
}

// Policy returns what operators have asked of the maps, as far as the node's log tells.
func (c *Client) Policy(ctx context.Context) (Policy, error) {
	return getJSON[Policy](ctx, c, "/v1/policy", nil)
}
