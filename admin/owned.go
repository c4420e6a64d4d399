package admin

import (
	"context"
	"net/http"
	"time"

	"shardway/internal/problem"
)

// OwnedList is the answer of GET /v1/owned: what the app of the answering node has, for
// apps that would rather ask than be told by hooks, and for people.
type OwnedList struct {
	Node string `json:"node"`
	// Epoch is that of the committed map. LeaseMS is how long the node may still serve as
	// far as it knows now; 0: it admits nothing, whatever the states are.
	Epoch   uint64 `json:"epoch"`
	LeaseMS int64  `json:"lease_ms"`
	// MayWriteMS is for how long the app may write if it hears no more, counted from when the app
	// sent the request; 0: it must stop. After a restart the node first waits as long as an
	// earlier response allowed.
	MayWriteMS int64        `json:"may_write_ms"`
	Shards     []OwnedShard `json:"shards"` // ascending
}

// States of an OwnedShard.
const (
	OwnedAcquiring = "acquiring" // admits nothing yet: its app is told to load it, or there is no lease yet
	OwnedServing   = "serving"   // admits requests
	OwnedReleasing = "releasing" // admits nothing more: it moves
)

// OwnedShard is one shard that a node has.
type OwnedShard struct {
	Shard uint32 `json:"shard"`
	Epoch uint64 `json:"epoch"` // ownership epoch
	State string `json:"state"` // acquiring, serving, releasing
	// Since is when the state began by the node's clock; without hooks, when the shard came.
	Since time.Time `json:"since"`
	// Error is why the app's last hook failed; empty if none has in this state.
	Error string `json:"error,omitempty"`
}

// Holder knows what its app has. A Cluster that is one too serves /v1/owned.
type OwnedAPI interface {
	// Held waits until the node can tell, or ctx ends.
	Held(ctx context.Context) (OwnedList, error)
}

func (s *Server) owned(w http.ResponseWriter, r *http.Request) error {
	holder, ok := s.cluster.(OwnedAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node owns no shards")
	}
	if _, err := query(r); err != nil {
		return err
	}
	list, err := holder.Held(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, list)
}

// Owned returns what the app of the node that answers has.
func (c *Client) Owned(ctx context.Context) (OwnedList, error) {
	return getJSON[OwnedList](ctx, c, "/v1/owned", nil)
}
