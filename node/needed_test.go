package node_test

import (
	"fmt"
	"testing"
	"time"
)

// A leader whose quorum needs the only other reachable voter gives up 500 ms after the last answer of that voter to a Raft heartbeat. With
// 194 ms between Raft heartbeats, a pause of that voter of 320 ms would cost all leases. By its own lease the leader tolerates 400 ms.
func TestLeaderOutlastsAPauseOfAVoterThatItNeeds(t *testing.T) {
	t.Parallel()
	for voters := 2; voters <= 3; voters++ {
		t.Run(fmt.Sprintf("two of %d", voters), func(t *testing.T) {
			t.Parallel()
			hanging{nodes: voters}.play(t, func(w *world) {
				if voters > 2 {
					gone := w.follower()
					gone.kill()
					defer gone.restart()
					w.until("the rest serve", func() bool { l := w.leader(); return l != nil && w.settled(append(w.others(l), l.name)...) })
				}
				time.Sleep(5 * time.Second)
				l := w.leader()
				f := w.all[w.others(l)[0]]
				for i := range 12 {
					time.Sleep(3*time.Second + time.Duration(i)*17*time.Millisecond)
					f.freeze()
					time.Sleep(390 * time.Millisecond)
					f.thaw()
					for range 200 {
						if w.moment(); !l.node.Leads() {
							w.t.Fatalf("pause %d of %s: %s leads no more", i, f.name, l.name)
						}
					}
				}
			})
		})
	}
}
