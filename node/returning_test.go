package node_test

import (
	"testing"
	"time"
)

// A process that was started again knows from its disk what was put into the log, and not
// what of it counts. It learns that at its first heartbeat, which it has as soon as the leader
// knows it to be back: not with Raft's next one, nor after a pause between two tries to reach
// it, nor with what the leader says of the log now and then.
func TestReturningNodeReceivesTheMapAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		for _, n := range []string{"a", "b", "c"} {
			w.start(n)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		for i := range 8 {
			time.Sleep(time.Second + time.Duration(i)*37*time.Millisecond)
			p := w.follower()
			p.kill()
			if i%2 == 1 { // the leader has tried it for a while, and rests in between
				time.Sleep(3 * time.Second)
			}
			p.restart()
			began := time.Now()
			w.until("it knows a map", func() bool { return p.node.State().Committed().Epoch() > 0 })
			if took := time.Since(began); took > 75*time.Millisecond {
				t.Errorf("%s knows a map %v after its start, want it at once: 75ms at most, with one pause of its greeting and one of its own heartbeats", p.name, took)
			}
			w.untilSettled("a", "b", "c")
		}
	})
}
