package admin

import (
	"context"
	"net/http"
	"net/url"

	"shardway/internal/problem"
)

// DrainState is how far a node has come that is to own nothing: the answer of GET
// /v1/drain, and at the node's own socket.
type DrainState struct {
	Node string `json:"node"`
	// Asked: it is to own nothing, as far as the answering node knows.
	Asked bool `json:"asked"`
	// Shards are those that it owns, or is to.
	Shards int `json:"shards"`
	// Requests and Sockets run there, at its app; -1: it did not tell.
	Requests int `json:"requests"`
	Sockets  int `json:"sockets"`
	// Stays says why its shards go nowhere; empty: they do.
	Stays string `json:"stays,omitempty"`
	// Warning says what the end of the node endangers; empty: nothing, or it was not asked.
	Warning string `json:"warning,omitempty"`
}

// Left reports whether anything is left at the node, as far as it told.
func (d DrainState) Left() bool { return d.Shards > 0 || d.Requests > 0 || d.Sockets > 0 }

// Drainer knows how far drains are. A Cluster that is one too serves GET /v1/drain.
type Drainer interface {
	// DrainState tells of a node. An error of one that is unknown wraps ErrUnknownNode.
	DrainState(ctx context.Context, node string) (DrainState, error)
}

// drain starts a drain, or tells how far one is.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodPost {
		return s.act(Drain)(w, r)
	}
	drainer, ok := s.cluster.(Drainer)
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
	return get[DrainState](ctx, c, "/v1/drain", url.Values{"node": {node}})
}
