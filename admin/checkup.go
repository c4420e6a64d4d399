package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"shardway/internal/problem"
	"shardway/verdict"
)

// Examiner asks all nodes what they say of themselves. A Cluster that is one too serves
// /v1/checkup.
type CheckupAPI interface {
	// Checkup asks every node that is there, at its peer port, and returns at the latest
	// when ctx ends. With reach, each tries the ports of all others as well, which takes
	// some seconds where one does not answer.
	Checkup(ctx context.Context, reach bool) verdict.Checkup
}

func (s *Server) checkup(w http.ResponseWriter, r *http.Request) error {
	e, ok := s.cluster.(CheckupAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node asks no others")
	}
	q, err := query(r, "reach")
	if err != nil {
		return err
	}
	reach, err := q.boolean("reach")
	if err != nil {
		return err
	}
	c := e.Checkup(r.Context(), reach)
	c.Reports, c.Silent = nonNil(c.Reports), nonNil(c.Silent)
	for i := range c.Reports {
		if c.Reports[i].Settings == nil {
			c.Reports[i].Settings = map[string]string{}
		}
		c.Reports[i].Findings, c.Reports[i].Unreached = nonNil(c.Reports[i].Findings), nonNil(c.Reports[i].Unreached)
	}
	return writeJSON(w, c)
}

// Checkup has a node ask all that are there.
func (c *Client) Checkup(ctx context.Context, reach bool) (verdict.Checkup, error) {
	return getJSON[verdict.Checkup](ctx, c, "/v1/checkup", url.Values{"reach": {strconv.FormatBool(reach)}})
}
