package node_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"shardway/node"
)

// TestManyWholeNodes starts many nodes with 16 384 shards and with real Serf and Raft, and kills one. SHARDWAY_SCALE_NODES is the number of
// nodes (default 10: fifty take a minute, a hundred many). It prints the duration in virtual time. Computation takes no time in a bubble;
// package ack/scale charges for it.
func TestManyWholeNodes(t *testing.T) {
	if testing.Short() || share(0, 1) == 1 {
		t.Skip("takes seconds, and with the race detector shows what fewer nodes do")
	}
	t.Parallel()
	n := 10
	if v, err := strconv.Atoi(os.Getenv("SHARDWAY_SCALE_NODES")); err == nil && v > 0 {
		n = v
	}
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Shards = 16384 }
		took := func(what string, names []string) {
			t.Helper()
			began := time.Now()
			w.untilSettled(names...)
			w.t.Logf("%d nodes: %s after %v", n, what, time.Since(began).Round(time.Millisecond))
		}
		var names []string
		for i := range n {
			name := fmt.Sprintf("n%03d", i)
			w.start(name)
			names = append(names, name)
		}
		took("all serve", names)
		time.Sleep(30 * time.Second) // gossip becomes quiet; five nodes vote
		took("all still serve", names)
		victim := w.follower()
		victim.kill()
		took("one was killed, the others have its shards", w.others(victim))
		lead := w.leader()
		lead.kill()
		took("the leader was killed, the others have its shards", w.others(lead))
	})
}
