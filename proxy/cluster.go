package proxy

import (
	"context"
	"net"
	"time"

	"shardway/proxy/route"
	"shardway/shardmap"
)

// Cluster is what the proxy needs of the node around it. Any number of goroutines call its methods.
// Table, Admit and LeaseLeft are called for each request, so they neither lock nor allocate.
type Cluster interface {
	// Table returns the present routing table by one atomic load. It is never nil.
	Table() *route.Table
	// Admit requests permission to run a request for s on the local app. It increments the
	// in-flight count of the shard, and then checks the table and the lease again. release
	// decrements the count; it must be called once. epoch is the ownership epoch of the shard. The
	// error is a Refusal. A table newer than the one of the refusal announces that its reason is
	// gone, also that the lease is back, however short the gap was. Requests wait for that and do
	// not retry before.
	Admit(s shardmap.Shard) (epoch uint64, release func(), err error)
	// LeaseLeft returns how long this node may still serve, by the exact clock. It is called right
	// before the first byte is sent to the app. As with Admit, a newer table announces that the
	// lease is back.
	LeaseLeft() time.Duration
	// Await waits until this node has applied both epochs. It returns false if ctx ended first.
	Await(ctx context.Context, committed, proposed uint64) bool
	// Dial opens a stream for forwarded requests to a node, over a connection of its own.
	Dial(ctx context.Context, node string) (net.Conn, error)
	// OpenStream opens a multiplexed stream to the node, for small requests with small responses.
	// It uses a session only if data has arrived on it very recently. It never blocks. Nil means
	// that there is none.
	OpenStream(node string) net.Conn
	// OpenWebSocketStream opens a multiplexed stream to the node for a WebSocket that may be
	// resumable, over a session on which data has arrived very recently. It may wait for that until
	// ctx ends. Nil means that there is none.
	OpenWebSocketStream(ctx context.Context, node string) net.Conn
}
