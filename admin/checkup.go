package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"shardway/internal/problem"
	"shardway/verdict"
)

// CheckupAPI is the optional interface of a Cluster that serves /v1/checkup.
type CheckupAPI interface {
	// Checkup collects a report from every known node over its peer port. It returns at the latest
	// when ctx ends. If reach is set, each node also connects to the ports of all other nodes, which
	// takes some seconds if one does not respond.
	Checkup(ctx context.Context, reach bool) verdict.Checkup
}

func (s *Server) checkup(w http.ResponseWriter, r *http.Request) error {
	api, ok := s.cluster.(CheckupAPI)
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
	c := api.Checkup(r.Context(), reach)
	c.Reports, c.Unresponsive = nonNil(c.Reports), nonNil(c.Unresponsive)
	for i := range c.Reports {
		if c.Reports[i].Settings == nil {
			c.Reports[i].Settings = map[string]string{}
		}
		c.Reports[i].Findings, c.Reports[i].Unreached = nonNil(c.Reports[i].Findings), nonNil(c.Reports[i].Unreached)
	}
	return writeJSON(w, c)
}

// Checkup makes the node collect reports from all nodes.
func (c *Client) Checkup(ctx context.Context, reach bool) (verdict.Checkup, error) {
	return getJSON[verdict.Checkup](ctx, c, "/v1/checkup", url.Values{"reach": {strconv.FormatBool(reach)}})
}
