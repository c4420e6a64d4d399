package api

import "context"

// HotList is the response of GET /v1/hot: the load of the cluster, highest first, averaged over
// about 10 s.
type HotList struct {
	// Shards has up to 64 shards with the highest load, selected from the top 64 of each node.
	Shards []HotShard `json:"shards"`
	// Keys has up to 32 keys with the highest request rate, estimated from a sample.
	Keys []HotKey `json:"keys"`
	// Limited has up to 32 keys with the most requests that exceeded a limit of their key.
	Limited []HotKey `json:"limited"`
	// Unresponsive has the nodes that did not respond in time.
	Unresponsive []string `json:"unresponsive"`
}

// HotShard is the load of a shard, as measured by its owner.
type HotShard struct {
	Shard uint32 `json:"shard"`
	// Service and ServiceShard are as in Shard.
	Service      string  `json:"service,omitempty"`
	ServiceShard *uint32 `json:"service_shard,omitempty"`
	Node         string  `json:"node"`
	// Instance is the number of the app instance to which the shard is assigned. It is absent if no node has
	// several instances, or if Node no longer owns the shard.
	Instance int     `json:"instance,omitempty"`
	Requests float64 `json:"requests"`   // per second
	Busy     float64 `json:"busy"`       // mean number of concurrent requests, without WebSockets
	Bytes    float64 `json:"bytes"`      // per second, both directions
	Sockets  int32   `json:"websockets"` // current number of upgraded connections
}

// HotKey is the request rate of a key, in requests per second.
type HotKey struct {
	Shard uint32 `json:"shard"`
	// Service and ServiceShard are as in Shard.
	Service      string  `json:"service,omitempty"`
	ServiceShard *uint32 `json:"service_shard,omitempty"`
	// Node is the owner of the shard. It is absent if the shard is orphaned.
	Node string `json:"node,omitempty"`
	// Instance is the number of the owner's app instance. It is absent if no node has several instances.
	Instance int    `json:"instance,omitempty"`
	Hash     string `json:"key_hash"`
	// Key is set only if the owner runs with --access-log-keys.
	Key      string  `json:"key,omitempty"`
	Requests float64 `json:"requests"`
}

// HotService serves /v1/hot.
type HotService interface {
	// Hot queries all nodes, at most once per second for all callers together, and returns within
	// 2 s. The caller must not modify the result.
	Hot(ctx context.Context) HotList
}
