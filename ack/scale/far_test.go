package scale_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/scale"
)

// Three heartbeats are under way to a far node and back, so what it echoes is the
// fourth last answer that it was sent. The leader found an answer by its number, which
// counted those to all nodes, in one of 64 places: with 64 nodes every answer to a node
// had the same place, only the last one was remembered, and no far node was ever heard
// to echo anything.
func TestFarNodesKeepTheirLeasesInLargeClusters(t *testing.T) {
	for _, nodes := range []int{64, 96} {
		o := lan(ack.TakeoverLease)
		o.Instant = true
		o.Nodes, o.Shards, o.Lease, o.Far, o.FarLatency = nodes, 1024, 800*time.Millisecond, 8, 150*time.Millisecond
		s := scale.New(o)
		if !s.Run(time.Minute, s.Settled) {
			t.Errorf("%d nodes: they do not settle", nodes)
			continue
		}
		s.Pass(time.Second)
		entries := len(s.Entries)
		for range 200 {
			s.Pass(10 * time.Millisecond)
			if !s.Settled() {
				t.Errorf("%d nodes: somebody's lease has ended", nodes)
				break
			}
		}
		if n := len(s.Entries) - entries; n > 0 {
			t.Errorf("%d nodes: %d entries at rest", nodes, n)
		}
	}
}
