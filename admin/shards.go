package admin

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
}

// ShardList is the answer of GET /v1/shards.
type ShardList struct {
	Epoch    uint64  `json:"epoch"`
	Proposed uint64  `json:"proposed"`
	Total    int     `json:"total"` // of the cluster, whatever the filter
	Shards   []Shard `json:"shards"`
}
