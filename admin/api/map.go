package api

// HashName is the value of Map.Hash: the shard of a key is xxhash64 of its bytes with seed 0,
// modulo the number of shards.
const HashName = "xxhash64"

// Map is the response of GET /v1/map. It contains everything that a client needs to route requests
// itself.
type Map struct {
	Epoch  uint64    `json:"epoch"`
	Shards int       `json:"shards"`
	Hash   string    `json:"hash"` // always HashName
	Nodes  []MapNode `json:"nodes"`
	Owners []int     `json:"owners"` // index into Nodes by shard; -1 means orphaned
	// Instances contains the number of the owner's app instance for each shard. It is absent while
	// each node uses only its first instance, which has number 1.
	Instances []int `json:"instances,omitempty"`
	// Standbys contains, by shard, indexes into Nodes: the standbys of the shard, the next owner first. It is
	// present only if it was requested.
	Standbys [][]int `json:"standbys,omitempty"`
	// Services contains the ranges of the services, ascending. It is absent in a cluster without a list of
	// services: all shards belong to the service default.
	Services []MapService `json:"services,omitempty"`
}

// MapNode is a node in a Map.
type MapNode struct {
	ID   string `json:"id"`
	HTTP string `json:"http"` // endpoint "http" of the node; empty if unknown
}

// Location is the response of GET /v1/locate.
type Location struct {
	Key   string `json:"key"`
	Shard uint32 `json:"shard"`
	// Service and ServiceShard are as in Shard.
	Service      string  `json:"service,omitempty"`
	ServiceShard *uint32 `json:"service_shard,omitempty"`
	Owner        string  `json:"owner"`              // empty if orphaned
	Instance     int     `json:"instance,omitempty"` // as in Shard
	Endpoint     string  `json:"endpoint"`           // HTTP endpoint of the owner
	Epoch        uint64  `json:"epoch"`              // of the committed map
	// Standbys contains the nodes that take over the shard after a failure, the next owner first. NotStandbys
	// contains the other nodes, with the reasons. Both are absent if the shard should have no standbys.
	Standbys    []MapNode    `json:"standbys,omitempty"`
	NotStandbys []NotStandby `json:"not_standbys,omitempty"`
	// Unavailable and StaleReturn are as in Shard.
	Unavailable string `json:"unavailable,omitempty"`
	StaleReturn bool   `json:"stale_return,omitempty"`
}
