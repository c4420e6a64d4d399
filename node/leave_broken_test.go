package node_test

import (
	"strings"
	"testing"
	"time"

	"shardway/shardmap"
)

// A node that leaves while a request runs on it may lose its disk meanwhile: Raft
// has ended, so it would learn of no map any more, and its clients wait in vain for
// shards that others serve. It ends, and does not wait for what runs.
func TestLeavingNodeWithBrokenDiskEnds(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		rest := w.others(p)
		for s := range shardmap.Shard(shards) {
			if _, ok := p.node.Run1(s); ok { // and never ends
				break
			}
		}
		p.stop()
		w.until("it leaves", func() bool { return !w.leader().node.State().Proposed().IsMember(shardmap.NodeID(p.name)) })
		p.disk.breaks()
		began := time.Now()
		w.within(10*time.Second, "it ends", p.ended)
		t.Logf("it ended after %v", time.Since(began))
		if p.err == nil || !strings.Contains(p.err.Error(), errBroken.Error()) {
			w.t.Errorf("Run() = %v, want it to name the reason", p.err)
		}
		w.untilSettled(rest...)
	})
}
