package api

import (
	"cmp"
	"slices"
)

// Values of Shard.State.
const (
	ShardOwned    = "owned"
	ShardMoving   = "moving"
	ShardOrphaned = "orphaned"
)

// Shard is a shard in the response of GET /v1/shards.
type Shard struct {
	Shard uint32 `json:"shard"` // in the map of all services
	// Service is the service of the shard, and ServiceShard its number within the service. They are absent in
	// a cluster without a list of services.
	Service      string  `json:"service,omitempty"`
	ServiceShard *uint32 `json:"service_shard,omitempty"`
	State        string  `json:"state"` // owned, moving, orphaned
	Owner        string  `json:"owner"` // in the committed map; empty if orphaned
	// Instance is the number of the owner's app instance. It is absent while each node
	// uses only its first instance, which has number 1.
	Instance int    `json:"instance,omitempty"`
	Epoch    uint64 `json:"epoch"`        // ownership epoch; 0 if orphaned
	To       string `json:"to,omitempty"` // new owner in the current proposal
	// ToInstance and PreviousInstance are the instances of To and Previous, as in Instance. To is equal to
	// Owner if the shard moves between two instances of a node.
	ToInstance int `json:"to_instance,omitempty"`
	// Previous is the previous owner, or the last owner of an orphaned shard. Empty means none.
	Previous         string `json:"previous,omitempty"`
	PreviousInstance int    `json:"previous_instance,omitempty"`
	// Released is true if the app of the previous owner has released the shard for the current owner,
	// as far as the node has been informed.
	Released bool `json:"released,omitempty"`
	// Unavailable is why the owner does not serve the shard, as far as the node has been informed. It is
	// absent if the owner serves the shard.
	Unavailable string `json:"unavailable,omitempty"`
	// StaleReturn is true if the shard has returned to an app that owned it before and has not
	// restarted since.
	StaleReturn bool `json:"stale_return,omitempty"`
}

// Move is a change of a shard's owner.
type Move struct {
	Epoch uint64 `json:"epoch"` // of the committed map
	Shard uint32 `json:"shard"`
	From  string `json:"from"` // empty means orphaned
	To    string `json:"to"`   // empty means orphaned
	// FromInstance and ToInstance are the numbers of the app instances. They are absent while each
	// node uses only its first instance, which has number 1.
	FromInstance int    `json:"from_instance,omitempty"`
	ToInstance   int    `json:"to_instance,omitempty"`
	Reason       string `json:"reason"`
}

// ShardHistory is the response of GET /v1/shards/N.
type ShardHistory struct {
	Shard
	// Moves lists the moves of the shard, oldest first. The node remembers the last 4,096 moves of all
	// shards. After a restart, it only remembers moves that its log still contains.
	Moves []Move `json:"moves"`
}

// HistoryService serves /v1/shards/N.
type HistoryService interface {
	// Moves returns the recorded moves of a shard, oldest first.
	Moves(shard uint32) []Move
}

// ShardList is the response of GET /v1/shards.
type ShardList struct {
	Epoch    uint64  `json:"epoch"`
	Proposed uint64  `json:"proposed"`
	Total    int     `json:"total"` // number of shards of the cluster, independent of the filter
	Shards   []Shard `json:"shards"`
}

// Find returns the shard with the number in the map. found is false if the list does not contain it, for example
// because its service has been removed. Shards must be sorted by their numbers.
func (l ShardList) Find(number uint32) (shard Shard, found bool) {
	i, found := slices.BinarySearchFunc(l.Shards, number, func(shard Shard, number uint32) int { return cmp.Compare(shard.Shard, number) })
	if !found {
		return Shard{}, false
	}
	return l.Shards[i], true
}
