package admin

import (
	"net/http"

	"shardway/internal/problem"
)

// checkup responds with the reports of all nodes. With the parameter reach, the nodes also test which ports they
// reach, which takes longer.
func (s *Server) checkup(w http.ResponseWriter, r *http.Request) error {
	if s.api.Checkup == nil {
		return problem.New(problem.NotFound, "this node asks no others")
	}
	values, err := query(r, "reach")
	if err != nil {
		return err
	}
	reach, err := values.boolean("reach")
	if err != nil {
		return err
	}
	checkup := s.api.Checkup.Checkup(r.Context(), reach)
	checkup.Reports, checkup.Unresponsive = nonNil(checkup.Reports), nonNil(checkup.Unresponsive)
	for i := range checkup.Reports {
		if checkup.Reports[i].Settings == nil {
			checkup.Reports[i].Settings = map[string]string{}
		}
		checkup.Reports[i].Findings, checkup.Reports[i].UnreachablePorts = nonNil(checkup.Reports[i].Findings), nonNil(checkup.Reports[i].UnreachablePorts)
	}
	return writeJSON(w, checkup)
}
