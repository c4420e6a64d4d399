package node_test

import (
	"testing"
	"time"
)

// A process that was started again knows from its disk what was put into the log, and not
// what of it counts. It learns that at its first heartbeat, and not with what the leader
// says of the log now and then.
func TestWhoComesBackLearnsTheMapAtOnce(t *testing.T) {
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
			p.restart()
			began := time.Now()
			w.until("it knows a map", func() bool { return p.node.State().Committed().Epoch() > 0 })
			if took := time.Since(began); took > 150*time.Millisecond {
				t.Errorf("%s knows a map %v after its start, want a heartbeat of Raft and one of its own, 150ms at most", p.name, took)
			}
			w.untilSettled("a", "b", "c")
		}
	})
}
