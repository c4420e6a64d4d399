package admin

import (
	"net/http"
	"strings"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// timingArgument is an argument of POST /v1/settings.
type timingArgument struct{ name, value string }

// timingArguments returns the arguments of POST /v1/settings with their values in timing.
func timingArguments(timing api.Timing) []timingArgument {
	return []timingArgument{{"lease", timing.Lease}, {"dead_after", timing.DeadAfter}, {"takeover", timing.Takeover}, {"rebalance_mode", timing.RebalanceMode}}
}

// timingNames returns the names of the arguments of POST /v1/settings.
func timingNames() (names []string) {
	for _, argument := range timingArguments(api.Timing{}) {
		names = append(names, argument.name)
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
		timing, known := s.api.Settings.Timing(r.Context())
		if !known {
			return problem.New(problem.NotFound, "this node belongs to no cluster yet: it knows no timing")
		}
		return writeJSON(w, timing)
	}
	change, reason, err := readTiming(r)
	if err != nil {
		return err
	}
	admission := admissionOf(r)
	admission.action, admission.reason = describeTiming(change), reason
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	timing, err := s.api.Settings.ChangeTiming(ctx, change, admission.caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, timing)
}

// describeTiming describes a change for the log.
func describeTiming(timing api.Timing) string {
	words := []string{"timing"}
	for _, argument := range timingArguments(timing) {
		if argument.value != "" {
			words = append(words, argument.name+"="+argument.value)
		}
	}
	return strings.Join(words, " ")
}

// settingsArguments are the arguments of POST /v1/settings. They do not embed api.Timing, because an error for a
// wrong type would name the field Timing.lease.
type settingsArguments struct {
	Lease         string `json:"lease"`
	DeadAfter     string `json:"dead_after"`
	Takeover      string `json:"takeover"`
	RebalanceMode string `json:"rebalance_mode"`
	Reason        string `json:"reason"`
}

// readTiming parses the settings to change, and the reason, from the JSON body or from the query. It
// returns an error if no setting is given.
func readTiming(r *http.Request) (timing api.Timing, reason string, err error) {
	body, err := readBody(r)
	if err != nil {
		return timing, "", err
	}
	names := append(timingNames(), "reason")
	if body != nil {
		var args settingsArguments
		args, err = decodeObject[settingsArguments](body, `{"dead_after":"5s"}`, names)
		timing, reason = api.Timing{Lease: args.Lease, DeadAfter: args.DeadAfter, Takeover: args.Takeover, RebalanceMode: args.RebalanceMode}, args.Reason
	} else if values, queryErr := query(r, names...); queryErr != nil {
		err = queryErr
	} else {
		reason = values.get("reason")
		timing = api.Timing{Lease: values.get("lease"), DeadAfter: values.get("dead_after"), Takeover: values.get("takeover"), RebalanceMode: values.get("rebalance_mode")}
	}
	if err == nil {
		err = checkReason(reason)
	}
	if err == nil && timing == (api.Timing{}) {
		err = missing("lease", "set at least one of lease, dead_after, takeover or rebalance_mode, for example {\"dead_after\":\"5s\"} or ?dead_after=5s")
	}
	return timing, reason, err
}
