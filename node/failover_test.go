package node_test

import (
	"fmt"
	"testing"
	"time"

	"shardway/ack"
	"shardway/node"
	"shardway/shardmap"
)

// When only the protocol takes time, each crash, also of a leader and after any number of earlier crashes, costs at most the takeover time
// and one election: no step waits for a timeout. Live nodes keep their leases, or get new ones from the new leader a moment after the old
// ones expire.
func TestEveryCrashIsOverInNoMoreThanItsTakeover(t *testing.T) {
	for takeover, most := range map[ack.Takeover]time.Duration{
		ack.TakeoverLease:     ack.DefaultTiming().Lease*11/10 + 50*time.Millisecond,
		ack.TakeoverImmediate: 50 * time.Millisecond,
	} {
		for _, names := range [][]string{{"a", "b", "c"}, {"a", "b", "c", "d", "e"}} {
			t.Run(fmt.Sprintf("takeover %d, %d nodes", takeover, len(names)), func(t *testing.T) {
				bubble(t, func(w *world) {
					w.tune = func(o *node.Options) { o.Timing.Takeover = takeover }
					for _, n := range names {
						w.start(n)
					}
					w.untilSettled(names...)
					for i := range share(12, 2) {
						w.untilVoters(len(names))
						time.Sleep(time.Second + time.Duration(i)*23*time.Millisecond) // any offset between heartbeats
						w.crash(i%2 == 0, most)
						w.untilSettled(names...)
					}
				})
			})
		}
	}
}

// crash kills the leader, or another node, checks for how long its shards are orphaned, and starts the node again.
func (w *world) crash(leads bool, most time.Duration) {
	w.t.Helper()
	p := w.leader()
	if !leads {
		p = w.follower()
	}
	rest := w.others(p)
	before := map[string]time.Duration{}
	for _, n := range rest {
		before[n] = w.all[n].absent()
	}
	p.kill()
	killed := time.Now()
	w.until("its shards are taken", func() bool {
		for _, n := range rest {
			if s := w.all[n].node.State(); s.Committed().IsMember(shardmap.NodeID(p.name)) || s.HasOpenProposal() {
				return false
			}
		}
		return true
	})
	if took := time.Since(killed); took > most {
		w.t.Errorf("the shards of %s (leader: %v) are taken %v after its crash, want %v at most", p.name, leads, took, most)
	}
	for _, n := range rest {
		if d := w.all[n].absent() - before[n]; d > 50*time.Millisecond {
			w.t.Errorf("%s was without a lease for %v after the crash of %s (leader: %v)", n, d, p.name, leads)
		}
	}
	p.restart()
}
