package node_test

import (
	"strings"
	"testing"
	"time"

	"shardway/shardmap"
)

// A leaving node may lose its disk while a request runs on it. Raft has ended, so the node receives no further map, and its clients would
// wait in vain for shards that other nodes serve. The node ends without waiting for running requests.
func TestLeavingNodeWithBrokenDiskEnds(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		rest := w.others(p)
		for s := range shardmap.Shard(shards) {
			if _, ok := p.node.Run1(s); ok { // never ends
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
