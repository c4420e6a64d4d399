package node_test

import (
	"testing"
	"time"
)

// The voter that stands first when the leader's process is gone may lack an entry
// that the other has. It loses then, and the other one, which had seen it stand,
// used to leave it at that: a second and more without a leader.
func TestVoterStandsAfterOneThatCannotWin(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		leader, rest := w.leader(), w.others(w.leader())
		laggard, other := w.all[rest[0]], w.all[rest[1]]
		before := other.node.State().Proposed().Epoch()
		w.net.Cut(leader.name, laggard.name) // it confirms, and is told nothing
		w.start("d")                         // a reason for entries
		w.until("the other one has an entry more", func() bool { return other.node.State().Proposed().Epoch() > before })
		w.net.Heal()
		leader.kill()
		killed := time.Now()
		w.until("another leads", func() bool { return w.leader() != nil })
		if took := time.Since(killed); took > 600*time.Millisecond {
			w.t.Errorf("%s leads after %v, want it at once: there was evidence", w.leader().name, took)
		}
		w.untilSettled(rest[0], rest[1], "d")
	})
}
