package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// Plan is what the next map would move, as the leader reckons by what is committed, who is
// there and what was asked: the answer of GET /v1/rebalance. Nothing comes of asking.
type Plan struct {
	// Epoch is that of the committed map.
	Epoch uint64 `json:"epoch"`
	// Moves are in the order of their first shard; none: the committed map is the one that
	// ought to be.
	Moves []PlannedMoves `json:"moves"`
	// Pause is for how long planned moves were to wait, empty if they do not; Resumed are
	// what would move if they did not.
	Pause   string         `json:"pause,omitempty"`
	Resumed []PlannedMoves `json:"resumed,omitempty"`
	// HeldBack are the nodes that get fewer shards than an even spread gives them: their apps
	// had the others before, and have not restarted.
	HeldBack []HeldBackNode `json:"held_back,omitempty"`
}

// HeldBackNode is a node that would own more shards if its app had restarted.
type HeldBackNode struct {
	Node string `json:"node"`
	// Shards is how many more it would own.
	Shards int `json:"shards"`
}

// PlannedMoves are shards that go from one node to another for one cause.
type PlannedMoves struct {
	From string `json:"from"` // empty: nobody owns them
	To   string `json:"to"`   // empty: nobody takes them
	// Why is the cause in the words of a shard's history, or of these: pin, spread, orphan.
	Why string `json:"why"`
	// Proposed: the map that does so waits for acknowledgements.
	Proposed bool     `json:"proposed"`
	Shards   []uint32 `json:"shards"` // ascending
}

// Planner knows what the next map would move. A Cluster that is one too serves
// /v1/rebalance.
type PlanAPI interface {
	// Plan asks the leader. Its errors are those of Cluster.Do.
	Plan(ctx context.Context) (Plan, error)
}

func (s *Server) plan(w http.ResponseWriter, r *http.Request) error {
	planner, ok := s.cluster.(PlanAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node plans nothing")
	}
	if _, err := query(r); err != nil {
		return err
	}
	p, err := planner.Plan(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, p)
}

// Plan returns what the next map would move.
func (c *Client) Plan(ctx context.Context) (Plan, error) {
	return getJSON[Plan](ctx, c, "/v1/rebalance", nil)
}
