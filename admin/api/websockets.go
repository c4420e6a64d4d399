package api

import "context"

// SocketList is the response of GET /v1/websockets: the current WebSockets and other upgraded
// connections of the cluster, as reported by the nodes.
type SocketList struct {
	Shards []ShardSockets `json:"shards"` // shards with sockets, ascending
	Nodes  []NodeSockets  `json:"nodes"`  // sorted by id
	// Unresponsive has the nodes that did not respond in time.
	Unresponsive []string `json:"unresponsive"`
}

// ShardSockets has the numbers of sockets of a shard at all nodes together.
type ShardSockets struct {
	Shard uint32 `json:"shard"` // in the map of all services
	// Service is the service of the shard, and ServiceShard its number there. Without services, both are missing.
	Service      string  `json:"service,omitempty"`
	ServiceShard *uint32 `json:"service_shard,omitempty"`

	Attached int `json:"attached"` // resumable, with a connection to the app
	Detached int `json:"detached"` // resumable, waiting for the next connection to the app
	Plain    int `json:"plain"`    // not resumable: they end when the shard moves
}

// NodeSockets has the numbers of sockets of a node.
type NodeSockets struct {
	Node string `json:"node"`
	// Attached and Detached count as in ShardSockets, for clients that are connected to this node.
	Attached int `json:"attached"`
	Detached int `json:"detached"`
	App      int `json:"app"` // connected to its app, resumable or not
}

// SocketBreak selects resumable sockets whose connections to the app are closed, so that the
// sockets resume with new connections. This has the effect of a move of their shard or, if Gap is
// set, of a failure of its owner.
type SocketBreak struct {
	// All selects all resumable sockets of the cluster. Otherwise Key selects those of a key, Shard those of a
	// shard in the map of all services, and both those of a key in a service.
	All   bool    `json:"all,omitempty"`
	Key   *string `json:"key,omitempty"`
	Shard *uint32 `json:"shard,omitempty"`
	Gap   bool    `json:"gap,omitempty"`
}

// BrokenSockets is the response of POST /v1/websockets. GET /v1/websockets and the metrics show whether
// the sockets resume.
type BrokenSockets struct {
	Sockets      int            `json:"websockets"`   // number of affected sockets
	Nodes        map[string]int `json:"nodes"`        // number at each node that has some
	Unresponsive []string       `json:"unresponsive"` // as in SocketList; their sockets may be unaffected
}

// WebSocketService serves /v1/websockets.
type WebSocketService interface {
	// Sockets queries all nodes, at most once per second for all callers together, and returns within
	// 2 s. The caller must not modify the result.
	Sockets(ctx context.Context) SocketList
	// BreakSockets closes upstream connections at all nodes and returns within 2 s.
	BreakSockets(ctx context.Context, b SocketBreak, by string) BrokenSockets
}
