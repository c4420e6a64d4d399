package api

import "context"

// DrainState is the progress of a drain. GET /v1/drain and the local socket respond with it. The drained node fills
// it in, and the node that receives the request adds what its log contains, so callers receive every field that is
// added here.
type DrainState struct {
	Node string `json:"node"`
	// Requested is true if a drain of the node was requested, as far as the responding node has been informed.
	Requested bool `json:"requested"`
	// Shards is the number of shards that the node owns or is about to own.
	Shards int `json:"shards"`
	// Requests and Sockets are the numbers of requests and upgraded connections in progress at the app of the node; -1 means that the node does not respond.
	Requests int `json:"requests"`
	Sockets  int `json:"websockets"`
	// Held is the number of these shards that the app holds (Shardway-Hold); -1 means that the node does not respond.
	Held int `json:"held"`
	// Unconfirmed is true if the node does not respond and may still run requests: it sends heartbeats
	// to the leader, or the leader is unknown.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// BlockedBy is the reason why no other node can get the shards. Empty means that other nodes can.
	BlockedBy string `json:"blocked_by,omitempty"`
	// WaitsFor is the condition for the end of the drain. Empty means unknown, or that the drain is complete.
	WaitsFor string `json:"waits_for,omitempty"`
	// Unreleased is the number of shards that moved since the start of the drain without a release
	// by the app. UnreleasedWhy is the reason for the first of them.
	Unreleased    int    `json:"unreleased,omitempty"`
	UnreleasedWhy string `json:"unreleased_why,omitempty"`
	// Warning is the risk of stopping the node. Empty means no risk, or that no drain was requested.
	Warning string `json:"warning,omitempty"`
}

// Left reports whether the node still has shards, requests or upgraded connections, or may have them.
func (d DrainState) Left() bool {
	return d.Shards > 0 || d.Requests > 0 || d.Sockets > 0 || d.Unconfirmed
}

// DrainService serves GET /v1/drain.
type DrainService interface {
	// DrainState returns the progress for a node. The error for an unknown node wraps ErrUnknownNode.
	DrainState(ctx context.Context, node string) (DrainState, error)
}
