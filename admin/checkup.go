package admin

import (
	"net/http"

	"shardway/internal/problem"
)

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
	c := s.api.Checkup.Checkup(r.Context(), reach)
	c.Reports, c.Unresponsive = nonNil(c.Reports), nonNil(c.Unresponsive)
	for i := range c.Reports {
		if c.Reports[i].Settings == nil {
			c.Reports[i].Settings = map[string]string{}
		}
		c.Reports[i].Findings, c.Reports[i].UnreachablePorts = nonNil(c.Reports[i].Findings), nonNil(c.Reports[i].UnreachablePorts)
	}
	return writeJSON(w, c)
}
