package admin

import (
	"net/http"
	"strings"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// timingArgument is an argument of POST /v1/settings.
type timingArgument struct{ name, value string }

// timingArguments returns the arguments of POST /v1/settings with their values in t.
func timingArguments(t api.Timing) []timingArgument {
	return []timingArgument{{"lease", t.Lease}, {"dead_after", t.DeadAfter}, {"takeover", t.Takeover}, {"rebalance_mode", t.RebalanceMode}}
}

// timingNames returns the names of the arguments of POST /v1/settings.
func timingNames() (names []string) {
	for _, a := range timingArguments(api.Timing{}) {
		names = append(names, a.name)
	}
	return names
}

// timing returns the timing, or changes the values that the arguments contain.
func (s *Server) timing(w http.ResponseWriter, r *http.Request) error {
	if s.api.Settings == nil {
		return problem.New(problem.NotFound, "this node has no timing")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		t, known := s.api.Settings.Timing(r.Context())
		if !known {
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
	for _, a := range timingArguments(t) {
		if a.value != "" {
			words = append(words, a.name+"="+a.value)
		}
	}
	return strings.Join(words, " ")
}

// readTiming parses the settings to change from the JSON body or from the query. It returns an error
// if none is given.
func readTiming(r *http.Request) (t api.Timing, err error) {
	body, err := readBody(r)
	if err != nil {
		return t, err
	}
	if body != nil {
		t, err = decodeObject[api.Timing](body, `{"dead_after":"5s"}`, timingNames())
	} else if q, queryErr := query(r, timingNames()...); queryErr != nil {
		err = queryErr
	} else {
		t = api.Timing{Lease: q.get("lease"), DeadAfter: q.get("dead_after"), Takeover: q.get("takeover"), RebalanceMode: q.get("rebalance_mode")}
	}
	if err == nil && t == (api.Timing{}) {
		err = missing("lease", "set at least one of lease, dead_after, takeover or rebalance_mode, for example {\"dead_after\":\"5s\"} or ?dead_after=5s")
	}
	return t, err
}
