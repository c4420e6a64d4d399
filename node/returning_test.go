package node_test

import (
	"testing"
	"time"
)

// A restarted process knows from its disk what was appended to the log, but not what is committed. It learns that with its first heartbeat,
// which it receives as soon as the leader knows of its return. It does not wait for the next Raft heartbeat, for a delay between two dials,
// or for a periodic commit message.
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
			if i%2 == 1 { // the leader has dialed it for a while, and waits between dials
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
