package node_test

import (
	"fmt"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/node"
	"shardway/shardmap"
)

// A node that is stopped or cut off for a moment is excluded by one proposal, and gets all shards back by the next one, before another node
// has owned them. Its app keeps its state. Once, the app had to discard its state, with everything that it had not stored since its last
// release.
func TestAppOfBrieflyAbsentNodeKeepsItsState(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stopped", "isolated", "deaf", "mute"} {
		for _, leads := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, leads %v", how, leads), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(w *world) {
					l := newLedger()
					w.hooked(l, nil)
					hooked := w.tune
					w.tune = func(o *node.Options) {
						hooked(o)
						w.all[o.Dir.Node()].runsBy(o, newClock(1))
					}
					for _, name := range []string{"a", "b", "c"} {
						w.start(name)
					}
					w.untilSettled("a", "b", "c")
					w.untilVoters(3)
					w.until("every shard is served", w.allServed)
					before, acquired, released, dropped := w.committed(), l.count(agent.HookAcquire), l.count(agent.HookRelease), false
					for _, d := range []int{550, 700, 900, 1200, 1600, 2000} {
						p := w.follower()
						if leads {
							p = w.leader()
						}
						end := w.hang(p, how)
						time.Sleep(time.Duration(d) * time.Millisecond)
						end()
						w.until("it is settled", func() bool {
							dropped = dropped || p.node.State().IsDropped(shardmap.NodeID(p.name))
							return w.settled("a", "b", "c") && w.allServed()
						})
						if n := l.count(agent.HookLost); n > 0 {
							w.t.Fatalf("after %d ms %d shards are lost that nobody has taken", d, n)
						}
						time.Sleep(5 * time.Second)
					}
					if again, given := l.count(agent.HookAcquire)-acquired, l.count(agent.HookRelease)-released; again != given {
						w.t.Errorf("%d shards were acquired anew, %d released", again, given)
					}
					if moves := shardmap.Diff(before, w.committed()); len(moves) > 0 {
						w.t.Errorf("%d shards have moved", len(moves))
					}
					if !dropped && !leads { // a new leader has too few heartbeats of the old one to exclude it in that time
						w.t.Error("nobody was left out")
					}
				})
			})
		}
	}
}
