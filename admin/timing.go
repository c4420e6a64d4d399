package admin

import (
	"context"
	"net/http"
	"strings"

	"shardway/internal/problem"
)

// Timing is what guards that a shard has one owner, a fact of the cluster.
// Durations are written as the flags of run take them: "500ms".
type Timing struct {
	Lease     string `json:"lease,omitempty"`
	DeadAfter string `json:"dead_after,omitempty"`
	Fence     string `json:"fence,omitempty"` // strict, lease or refused
	Pause     string `json:"pause,omitempty"` // moving or cluster
}

// TimingState is the answer of GET and POST /v1/timing.
type TimingState struct {
	Timing
	// Since is the index of the log entry that set it, Before what was in force
	// until then.
	Since  uint64 `json:"since"`
	Before Timing `json:"before"`
	// BeforeCounts is for how much longer waits go by the larger of both: "0s" once
	// they do not, empty where that is not known: only a leader knows.
	BeforeCounts string `json:"before_counts,omitempty"`
}

// Retimer changes the timing of a cluster. A Cluster that is one too serves
// /v1/timing.
type TimingAPI interface {
	// Timing returns what the leader says, or without it what this node's log does,
	// and false before there is a cluster.
	Timing(ctx context.Context) (TimingState, bool)
	// Retime changes what is not empty and returns once the leader has it. Its
	// errors are those of Cluster.Do.
	Retime(ctx context.Context, change Timing, by string) (TimingState, error)
}

// timingNames are the arguments of POST /v1/timing.
func timingNames() []string { return []string{"lease", "dead_after", "fence", "pause"} }

// timing shows the timing, or changes what the arguments name.
func (s *Server) timing(w http.ResponseWriter, r *http.Request) error {
	retimer, ok := s.cluster.(TimingAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node has no timing")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		t, born := retimer.Timing(r.Context())
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
	t, err := retimer.Retime(ctx, change, c.caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, t)
}

// describe says for the log what is asked.
func (t Timing) describe() string {
	words := []string{"timing"}
	for i, v := range []string{t.Lease, t.DeadAfter, t.Fence, t.Pause} {
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
		t = Timing{Lease: q.str("lease"), DeadAfter: q.str("dead_after"), Fence: q.str("fence"), Pause: q.str("pause")}
	}
	if err == nil && t == (Timing{}) {
		err = missing("lease", "say what to change, lease, dead_after, fence or pause, as in {\"dead_after\":\"5s\"} or ?dead_after=5s")
	}
	return t, err
}

// Timing returns the timing of the cluster.
func (c *Client) Timing(ctx context.Context) (TimingState, error) {
	return getJSON[TimingState](ctx, c, "/v1/timing", nil)
}
