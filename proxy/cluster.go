package proxy

import (
	"context"
	"net"
	"time"

	"shardway/shardmap"
)

// Cluster is what the proxy asks of the node around it. All methods are called
// from any number of goroutines; Table, Admit and LeaseLeft once and more per
// request, so they neither lock nor allocate.
type Cluster interface {
	// Table returns the routing table of this moment: one atomic load, never nil.
	Table() *Table
	// Admit asks leave to run a request for s on the local app. It raises the
	// shard's in-flight count and then looks at table and lease again; release
	// lowers the count, once. The epoch is the shard's ownership epoch. The
	// error is a Refusal. Whatever it is for, a table newer than the one it was
	// refused by says when it is over: also that the lease is back, however short
	// the gap was. Requests wait for that and ask no sooner.
	Admit(s shardmap.Shard) (epoch uint64, release func(), err error)
	// LeaseLeft returns for how long this node may still serve, by the precise
	// clock. It is asked right before the first byte goes to the app. As with
	// Admit, a newer table tells that it has come back.
	LeaseLeft() time.Duration
	// Await waits until this node has applied both epochs, and returns false
	// when ctx ended first.
	Await(ctx context.Context, committed, proposed uint64) bool
	// Dial opens a stream for forwarded requests to a node, by a connection of its own.
	Dial(ctx context.Context, node string) (net.Conn, error)
	// Lane opens a lane to the node, for those that are small with small answers, by which
	// something has come just now. It never waits; nil: there is none.
	OpenStream(node string) net.Conn
	// Leg opens a lane to the node for a WebSocket that may stay, by which something has come
	// just now. It may wait for that, no longer than ctx; nil: there is none.
	OpenWebSocketStream(ctx context.Context, node string) net.Conn
}
