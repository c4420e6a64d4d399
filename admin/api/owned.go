package api

import (
	"context"
	"time"
)

// OwnedList is the response of GET /v1/owned: the shards of the app of the responding node. Apps
// can use it in place of hooks.
type OwnedList struct {
	Node string `json:"node"`
	// Epoch is the epoch of the committed map. LeaseMS is the remaining lease of the node; 0 means
	// that the node admits no requests in any state.
	Epoch   uint64 `json:"epoch"`
	LeaseMS int64  `json:"lease_ms"`
	// MayWriteMS is how long the app may write without a further response, counted from when the
	// app sent the request. 0 means that the app must stop writing. After a restart the node first
	// waits for as long as an earlier response allowed.
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

// OwnedService serves /v1/owned.
type OwnedService interface {
	// Held returns the shards. It blocks until the node has them, or ctx ends.
	Held(ctx context.Context) (OwnedList, error)
}
