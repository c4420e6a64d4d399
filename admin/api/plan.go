package api

import "context"

// Plan is the response of GET /v1/plan: the moves of the next map. The leader computes them
// from the committed map, the live nodes and the policy. The request changes nothing.
type Plan struct {
	// Epoch is the epoch of the committed map.
	Epoch uint64 `json:"epoch"`
	// Moves is sorted by the first shard. It is empty if the committed map needs no change.
	Moves []PlannedMoves `json:"moves"`
	// Pause is the duration of a pause of planned moves; empty means no pause. Resumed has the moves
	// that the end of the pause would cause.
	Pause   string         `json:"pause,omitempty"`
	Resumed []PlannedMoves `json:"resumed,omitempty"`
	// HeldBack has the nodes that get fewer shards than an even distribution assigns to them: their
	// apps had the other shards before, and have not restarted since.
	HeldBack []HeldBackNode `json:"held_back,omitempty"`
}

// HeldBackNode is a node that would own more shards if its app had restarted.
type HeldBackNode struct {
	Node string `json:"node"`
	// Shards is the number of shards that it would own in addition.
	Shards int `json:"shards"`
}

// PlannedMoves are shards that move from one owner to another for the same reason.
type PlannedMoves struct {
	From string `json:"from"` // empty means orphaned
	To   string `json:"to"`   // empty means that no node will own them
	// FromInstance and ToInstance are the numbers of the app instances. They are absent while each
	// node uses only its first instance, which has number 1.
	FromInstance int `json:"from_instance,omitempty"`
	ToInstance   int `json:"to_instance,omitempty"`
	// Why is a reason as in the history of a shard, or pin, spread or orphan.
	Why string `json:"why"`
	// Proposed is true if the map with these moves has been proposed and awaits acknowledgements.
	Proposed bool     `json:"proposed"`
	Shards   []uint32 `json:"shards"` // ascending
	// Service is the service of the shards. It is absent in a cluster without a list of services.
	Service string `json:"service,omitempty"`
}

// PlanService serves /v1/plan.
type PlanService interface {
	// Plan requests the plan from the leader. Its errors are those of Cluster.Do.
	Plan(ctx context.Context) (Plan, error)
}
