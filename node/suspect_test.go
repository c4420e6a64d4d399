package node_test

import (
	"slices"
	"testing"
	"time"

	"shardway/node"
)

// A member that stops responding is suspect from its first missed heartbeats on, and keeps its shards. It is failed
// once other nodes own them.
func TestUnresponsiveMemberIsSuspectBeforeItFails(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { w.all[o.Dir.Node()].runsBy(o, newClock(1)) }
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		leader, victim := w.leader(), w.follower()
		deadAfter := leader.node.State().Timing().DeadAfter
		observe := func(d time.Duration) (states []string, times []time.Duration) {
			began := time.Now()
			for ; time.Since(began) < d; time.Sleep(5 * time.Millisecond) {
				shown := w.listed(leader, victim.name)
				if shown.State == "suspect" && shown.Shards == 0 {
					w.t.Error("a suspect member owns no shards any more")
				}
				if isEarly := time.Since(began) < deadAfter-200*time.Millisecond; isEarly && shown.State == "failed" && shown.Shards > 0 {
					w.t.Error("a failed member owns shards")
				}
				if len(states) == 0 || states[len(states)-1] != shown.State {
					states, times = append(states, shown.State), append(times, time.Since(began))
				}
			}
			return states, times
		}
		victim.freeze()
		states, _ := observe(time.Second)
		if want := []string{"active", "suspect"}; !slices.Equal(states, want) {
			w.t.Fatalf("states during a pause of 1s: %v, want %v", states, want)
		}
		victim.thaw()
		states, _ = observe(time.Second)
		if last := states[len(states)-1]; last != "active" { // it was excluded if it acknowledged the next map first
			w.t.Fatalf("states after a pause of 1s: %v", states)
		}
		victim.freeze()
		states, times := observe(4 * time.Second)
		if want := []string{"active", "suspect", "failed"}; !slices.Equal(states, want) {
			w.t.Fatalf("states of an unresponsive member: %v, want %v", states, want)
		}
		if times[1] > 700*time.Millisecond || times[2] < deadAfter-200*time.Millisecond || times[2] > deadAfter+500*time.Millisecond {
			w.t.Errorf("suspect after %v, failed after %v", times[1], times[2])
		}
		victim.thaw()
		w.untilSettled("a", "b", "c")
	})
}

// A member whose process has certainly ended is failed at once: it cannot respond any more.
func TestCrashedMemberFailsAtOnce(t *testing.T) {
	three(t, func(w *world) {
		leader, victim := w.leader(), w.follower()
		victim.kill()
		killed := time.Now()
		w.until("it is failed", func() bool { return w.listed(leader, victim.name).State == "failed" })
		if took := time.Since(killed); took > 300*time.Millisecond {
			w.t.Errorf("failed after %v", took)
		}
	})
}
