package admin

import (
	"context"
	"net/http"
	"time"

	"shardway/internal/problem"
)

// OwnedList is the response of GET /v1/owned: the shards of the app of the responding node. Apps
// can use it in place of hooks.
type OwnedList struct {
	Node string `json:"node"`
	// Epoch is the epoch of the committed map. LeaseMS is the remaining lease of the node; 0 means
	// that the node admits no requests in any state.
	Epoch   uint64 `json:"epoch"`
	LeaseMS int64  `json:"lease_ms"`
	// MayWriteMS is how long the app may write without a further response, counted from the time at
	// which the app sent the request; 0 means that the app must stop writing. After a restart the
	// node first waits for as long as an earlier response allowed.
	MayWriteMS int64        `json:"may_write_ms"`
	Shards     []OwnedShard `json:"shards"` // ascending
}

// States of an OwnedShard.
const (
	OwnedAcquiring = "acquiring" // admits no requests: the app is loading the shard, or there is no lease yet
	OwnedServing   = "serving"   // admits requests
	OwnedReleasing = "releasing" // admits no requests: the shard is moving
)

// OwnedShard is a shard of the responding node.
type OwnedShard struct {
	Shard uint32 `json:"shard"`
	Epoch uint64 `json:"epoch"` // ownership epoch
	State string `json:"state"` // acquiring, serving, releasing
	// Since is the start of the state by the clock of the node. Without hooks it is the time at which the node became the owner.
	Since time.Time `json:"since"`
	// Error is why the last hook call failed in this state; empty if none failed.
	Error string `json:"error,omitempty"`
}

// OwnedAPI is the optional interface of a Cluster that serves /v1/owned.
type OwnedAPI interface {
	// Held returns the shards. It blocks until the node has them, or ctx ends.
	Held(ctx context.Context) (OwnedList, error)
}

func (s *Server) owned(w http.ResponseWriter, r *http.Request) error {
	api, ok := s.cluster.(OwnedAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node owns no shards")
	}
	if _, err := query(r); err != nil {
		return err
	}
	list, err := api.Held(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, list)
}

// Owned returns the shards of the app of the node.
func (c *Client) Owned(ctx context.Context) (OwnedList, error) {
	return getJSON[OwnedList](ctx, c, "/v1/owned", nil)
}
