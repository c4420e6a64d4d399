package admin

import (
	"net/http"

	"shardway/internal/problem"
)

// upgradeArguments are the arguments of POST /v1/upgrade.
type upgradeArguments struct {
	Finalize bool   `json:"finalize"`
	Reason   string `json:"reason"`
}

// upgrade returns the state of the upgrade, or finalizes it.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) error {
	if s.api.Upgrade == nil {
		return problem.New(problem.NotFound, "this node has no format version")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		return writeJSON(w, s.api.Upgrade.UpgradeStatus(r.Context()))
	}
	args, err := readUpgradeArguments(r)
	if err != nil {
		return err
	}
	admission := admissionOf(r)
	admission.action, admission.reason = "finalize the upgrade", args.Reason
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	state, err := s.api.Upgrade.FinalizeUpgrade(ctx, admission.caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, state)
}

// readUpgradeArguments requires finalize=true explicitly, because raising the format version cannot be undone.
func readUpgradeArguments(r *http.Request) (upgradeArguments, error) {
	args, err := parseUpgradeArguments(r)
	if err == nil {
		err = checkReason(args.Reason)
	}
	if err == nil && !args.Finalize {
		err = missing("finalize", `send {"finalize":true} or ?finalize=true: a finalized upgrade cannot be undone`)
	}
	return args, err
}

// parseUpgradeArguments parses the arguments from the JSON body or from the query.
func parseUpgradeArguments(r *http.Request) (args upgradeArguments, err error) {
	body, err := readBody(r)
	if err != nil {
		return args, err
	}
	if body != nil {
		return decodeObject[upgradeArguments](body, `{"finalize":true}`, []string{"finalize", "reason"})
	}
	values, err := query(r, "finalize", "reason")
	if err != nil {
		return args, err
	}
	args.Reason = values.get("reason")
	args.Finalize, err = values.boolean("finalize")
	return args, err
}
