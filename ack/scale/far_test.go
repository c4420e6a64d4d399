package scale_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/scale"
)

// A far node has three heartbeats in transit, so it echoes the fourth last answer. The leader
// once found answers by a number that counted the answers to all nodes, in one of 64 places.
// With 64 nodes all answers to a node had the same place, so only the last one was remembered,
// and no echo of a far node counted.
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
				t.Errorf("%d nodes: the lease of a node has ended", nodes)
				break
			}
		}
		if n := len(s.Entries) - entries; n > 0 {
			t.Errorf("%d nodes: %d entries at rest", nodes, n)
		}
	}
}

// Answers of a leader that has been killed are still in transit to followers. A voter decides whether
// to confirm such an answer while there is no leader.
func TestAnswersOfKilledLeaderArriveDuringElection(t *testing.T) {
	o := lan(ack.TakeoverImmediate)
	o.Instant = true
	o.Nodes, o.Shards, o.Latency, o.Lease = 10, 64, 45*time.Millisecond, 2*time.Second
	s := scale.New(o)
	for kill := range 2 { // three of five voters remain
		if !s.Run(time.Minute, s.Settled) {
			t.Fatalf("the cluster does not settle after %d kills", kill)
		}
		s.Pass(time.Second)
		s.Kill(s.Alive()[0])
		s.Pass(time.Millisecond)
	}
	if !s.Run(time.Minute, s.Settled) {
		t.Error("the cluster does not settle")
	}
}
