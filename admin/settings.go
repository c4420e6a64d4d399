package admin

import (
	"net/http"
	"strings"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// timingNames are the arguments of POST /v1/settings.
func timingNames() []string { return []string{"lease", "dead_after", "takeover", "rebalance_mode"} }

// timing returns the timing, or changes the values that the arguments contain.
func (s *Server) timing(w http.ResponseWriter, r *http.Request) error {
	if s.api.Settings == nil {
		return problem.New(problem.NotFound, "this node has no timing")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		t, born := s.api.Settings.Timing(r.Context())
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
	c.action = describeTiming(change)
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	t, err := s.api.Settings.ChangeTiming(ctx, change, c.caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, t)
}

// describeTiming describes a change for the log.
func describeTiming(t api.Timing) string {
	words := []string{"timing"}
	for i, v := range []string{t.Lease, t.DeadAfter, t.Takeover, t.RebalanceMode} {
		if v != "" {
			words = append(words, timingNames()[i]+"="+v)
		}
	}
	return strings.Join(words, " ")
}

func readTiming(r *http.Request) (t api.Timing, err error) {
	body, err := readBody(r)
	if err != nil {
		return t, err
	}
	if body != nil {
		t, err = decodeObject[api.Timing](body, `{"dead_after":"5s"}`, timingNames())
	} else if q, wrong := query(r, timingNames()...); wrong != nil {
		err = wrong
	} else {
		t = api.Timing{Lease: q.str("lease"), DeadAfter: q.str("dead_after"), Takeover: q.str("takeover"), RebalanceMode: q.str("rebalance_mode")}
	}
	if err == nil && t == (api.Timing{}) {
		err = missing("lease", "say what to change, lease, dead_after, takeover or rebalance_mode, as in {\"dead_after\":\"5s\"} or ?dead_after=5s")
	}
	return t, err
}
