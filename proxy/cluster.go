package proxy

import (
	"context"
	"time"

	"shardway/proxy/route"
	"shardway/proxy/upstream"
	"shardway/shardmap"
)

// Cluster is the interface to the node that contains the proxy. All methods are safe for concurrent
// use. Table, Admit and LeaseLeft are called for each request, so they neither lock nor allocate.
type Cluster interface {
	upstream.Network

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
}
