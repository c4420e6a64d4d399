package admin

import (
	"context"
	"net/http"
	"net/url"

	"shardway/internal/problem"
)

// DrainState is how far the drain of a node is: the answer of GET /v1/drain, and at the node's
// own socket. The node concerned fills it, and the node that is asked adds what its log says,
// so a field that is added here reaches every caller.
type DrainState struct {
	Node string `json:"node"`
	// Asked is true if the node is asked to own nothing, as far as the answering node knows.
	Asked bool `json:"asked"`
	// Shards is the number of shards that the node owns or is about to own.
	Shards int `json:"shards"`
	// Requests and Sockets are the numbers that run at the node's app; -1: the node does not answer.
	Requests int `json:"requests"`
	Sockets  int `json:"sockets"`
	// Held is the number of Shards that the app holds (Shardway-Hold); -1: the node does not answer.
	Held int `json:"held"`
	// Stays is why no other node takes the shards; empty: another node takes them.
	Stays string `json:"stays,omitempty"`
	// WaitsFor is what has to happen before nothing is left at the node; empty: not known, or nothing is left.
	WaitsFor string `json:"waits_for,omitempty"`
	// Unreleased is the number of shards that moved unreleased since the node was asked to
	// own nothing, and UnreleasedWhy why the first of them did.
	Unreleased    int    `json:"unreleased,omitempty"`
	UnreleasedWhy string `json:"unreleased_why,omitempty"`
	// Warning is what the end of the node endangers; empty: nothing, or it was not asked.
	Warning string `json:"warning,omitempty"`
}

// Left reports whether anything is left at the node, as far as it told.
func (d DrainState) Left() bool { return d.Shards > 0 || d.Requests > 0 || d.Sockets > 0 }

// Drainer knows how far drains are. A Cluster that is one too serves GET /v1/drain.
type DrainAPI interface {
	// DrainState tells of a node. An error of one that is unknown wraps ErrUnknownNode.
	DrainState(ctx context.Context, node string) (DrainState, error)
}

// drain starts a drain, or tells how far one is.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodPost {
		return s.actionEndpoint(Drain)(w, r)
	}
	drainer, ok := s.cluster.(DrainAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node does not know how far drains are")
	}
	q, err := query(r, "node")
	if err != nil {
		return err
	}
	if q.str("node") == "" {
		return missing("node", "say which node, as in ?node=n3")
	}
	d, err := drainer.DrainState(r.Context(), q.str("node"))
	if err != nil {
		return err
	}
	return writeJSON(w, d)
}

// DrainState tells how far the drain of a node is.
func (c *Client) DrainState(ctx context.Context, node string) (DrainState, error) {
	return getJSON[DrainState](ctx, c, "/v1/drain", url.Values{"node": {node}})
}
