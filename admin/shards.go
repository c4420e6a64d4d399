package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"shardway/internal/problem"
)

// States of a Shard.
const (
	ShardOwned    = "owned"
	ShardMoving   = "moving"
	ShardOrphaned = "orphaned"
)

// Shard is one row of GET /v1/shards.
type Shard struct {
	Shard uint32 `json:"shard"`
	State string `json:"state"`        // owned, moving, orphaned
	Owner string `json:"owner"`        // in the committed map; empty when orphaned
	Epoch uint64 `json:"epoch"`        // ownership epoch; 0 when orphaned
	To    string `json:"to,omitempty"` // where it moves to in the open proposal
	// Previous owned it before its owner did, or, if it is orphaned, last; empty: nobody.
	Previous string `json:"previous,omitempty"`
	// Released is true if it is known that the app of the previous owner has released it
	// for the present one.
	Released bool `json:"released,omitempty"`
	// Unserved says why its owner does not serve, as far as the node knows; left out: it
	// does.
	Unserved string `json:"unserved,omitempty"`
	// StaleReturn means that the shard has returned to the app of its owner, which has not
	// restarted since it had the shard before.
	StaleReturn bool `json:"stale_return,omitempty"`
}

// Move is a change of a shard's owner.
type Move struct {
	Epoch  uint64 `json:"epoch"` // of the map that was committed
	Shard  uint32 `json:"shard"`
	From   string `json:"from"` // empty: nobody owned it
	To     string `json:"to"`   // empty: nobody does
	Reason string `json:"reason"`
}

// ShardHistory is the answer of GET /v1/shards/N.
type ShardHistory struct {
	Shard
	// Moves are those that the node remembers, the oldest first: of the last 4096 moves
	// of all shards, as far as its log went back when it started.
	Moves []Move `json:"moves"`
}

// Explainer remembers moves. A Cluster that is one too serves /v1/shards/N.
type ShardHistoryAPI interface {
	// Moves returns what the node remembers of how a shard came to its owner, the
	// oldest first.
	Moves(shard uint32) []Move
}

// shard tells of one shard who has it, and why.
func (s *Server) shard(w http.ResponseWriter, r *http.Request) error {
	explainer, ok := s.cluster.(ShardHistoryAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node remembers no moves")
	}
	if _, err := query(r); err != nil {
		return err
	}
	all := s.cluster.Shards().Shards
	given := r.PathValue("shard")
	n, err := strconv.ParseUint(given, 10, 32)
	if err != nil {
		return badParam("shard", given, "is not a whole number: give one such as 17")
	}
	if n >= uint64(len(all)) {
		p := problem.Newf(problem.NotFound, "shard = %d does not exist: %s", n, describeShardRange(len(all)))
		p.Param, p.Value = "shard", given
		return p
	}
	return writeJSON(w, ShardHistory{Shard: all[n], Moves: nonNil(explainer.Moves(uint32(n)))})
}

// shardsThereAre says which numbers shards have.
func describeShardRange(n int) string {
	if n == 0 {
		return "the cluster is not born yet"
	}
	return fmt.Sprintf("the cluster has %d, from 0 to %d", n, n-1)
}

// Shard returns what the node knows of one shard.
func (c *Client) Shard(ctx context.Context, shard uint32) (ShardHistory, error) {
	return getJSON[ShardHistory](ctx, c, "/v1/shards/"+strconv.FormatUint(uint64(shard), 10), nil)
}

// ShardList is the answer of GET /v1/shards.
type ShardList struct {
	Epoch    uint64  `json:"epoch"`
	Proposed uint64  `json:"proposed"`
	Total    int     `json:"total"` // of the cluster, whatever the filter
	Shards   []Shard `json:"shards"`
}
