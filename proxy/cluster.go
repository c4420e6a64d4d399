package proxy

import (
	"context"
	"net"
	"time"

	"shardway/proxy/route"
	"shardway/shardmap"
)

// Cluster is the interface to the node that contains the proxy. All methods are safe for concurrent
// use. Table, Admit and LeaseLeft are called for each request, so they neither lock nor allocate.
type Cluster interface {
	// Table returns the current routing table by one atomic load. It is never nil.
	Table() *route.Table
	// Admit requests permission to run a request for shard s on the local app. It increments the
	// in-flight count of the shard, and then checks the table and the lease again. The caller must
	// call release once, which decrements the count. epoch is the ownership epoch of the shard.
	//
	// The error is a Refusal. When its reason no longer applies, a newer table is published, even
	// after a very short loss of the lease. Refused requests wait for that table, and do not retry
	// earlier.
	Admit(s shardmap.Shard) (epoch uint64, release func(), err error)
	// LeaseLeft returns how long this node may still serve, by the exact clock. It is called right
	// before the first byte is sent to the app. As with Admit, a newer table is published when the
	// lease is valid again.
	LeaseLeft() time.Duration
	// Await waits until this node has applied both epochs. It returns false if ctx ended first.
	Await(ctx context.Context, committed, proposed uint64) bool
	// Dial opens a stream for forwarded requests to a node, over a connection of its own.
	Dial(ctx context.Context, node string) (net.Conn, error)
	// OpenStream opens a multiplexed stream to the node, for small requests with small responses.
	// It uses only a session on which data has arrived very recently. It never blocks, and returns
	// nil if no stream is available.
	OpenStream(node string) net.Conn
	// OpenWebSocketStream opens a multiplexed stream to the node for a WebSocket that may be
	// resumable. It uses a session on which data has arrived very recently, and may wait for that
	// until ctx ends. It returns nil if no stream is available.
	OpenWebSocketStream(ctx context.Context, node string) net.Conn
}
