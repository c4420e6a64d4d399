package admin

import (
	"context"
	"net/http"
	"strings"

	"shardway/internal/problem"
)

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

// TimingAPI is the optional interface of a Cluster that serves /v1/settings.
type TimingAPI interface {
	// Timing returns the timing reported by the leader or, without a leader, by the log of this node.
	// ok is false if the node does not belong to a cluster yet.
	Timing(ctx context.Context) (TimingState, bool)
	// Retime changes the fields that are not empty and returns once the leader has applied the change.
	// Its errors are those of Cluster.Do.
	Retime(ctx context.Context, change Timing, by string) (TimingState, error)
}

// timingNames are the arguments of POST /v1/settings.
func timingNames() []string { return []string{"lease", "dead_after", "takeover", "rebalance_mode"} }

// timing returns the timing, or changes the values that the arguments contain.
func (s *Server) timing(w http.ResponseWriter, r *http.Request) error {
	api, ok := s.cluster.(TimingAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node has no timing")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		t, born := api.Timing(r.Context())
		if !born {
			return problem.New(problem.NotFound, "this node belongs to no cluster yet: it knows no timing")
		}
		return writeJSON(w, t)
	}
	change, err := readTiming(r)
	if err != nil {
		return err
	}
	c := admissionOf(r)
	c.action = change.describe()
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	t, err := api.Retime(ctx, change, c.caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, t)
}

// describe describes a change for the log.
func (t Timing) describe() string {
	words := []string{"timing"}
	for i, v := range []string{t.Lease, t.DeadAfter, t.Takeover, t.RebalanceMode} {
		if v != "" {
			words = append(words, timingNames()[i]+"="+v)
		}
	}
	return strings.Join(words, " ")
}

func readTiming(r *http.Request) (t Timing, err error) {
	body, err := readBody(r)
	if err != nil {
		return t, err
	}
	if body != nil {
		t, err = decodeObject[Timing](body, `{"dead_after":"5s"}`, timingNames())
	} else if q, wrong := query(r, timingNames()...); wrong != nil {
		err = wrong
	} else {
		t = Timing{Lease: q.str("lease"), DeadAfter: q.str("dead_after"), Takeover: q.str("takeover"), RebalanceMode: q.str("rebalance_mode")}
	}
	if err == nil && t == (Timing{}) {
		err = missing("lease", "say what to change, lease, dead_after, takeover or rebalance_mode, as in {\"dead_after\":\"5s\"} or ?dead_after=5s")
	}
	return t, err
}

// Timing returns the timing of the cluster.
func (c *Client) Timing(ctx context.Context) (TimingState, error) {
	return getJSON[TimingState](ctx, c, "/v1/settings", nil)
}
