package node_test

import (
	"testing"
	"time"

	"shardway/node"
)

// The voter that campaigns first after a crash of the leader may lack an entry that the other voter has, and then loses the election. Once,
// the other voter, which had seen the campaign, did not campaign itself: the cluster had no leader for more than a second.
func TestVoterStandsAfterOneThatCannotWin(t *testing.T) {
	bubble(t, func(w *world) {
		// The node that joins must not become a voter: it could then have an entry that both others lack, and no evidence.
		w.tune = func(o *node.Options) { o.MaxVoters = 3 }
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		leader, rest := w.leader(), w.others(w.leader())
		laggard, other := w.all[rest[0]], w.all[rest[1]]
		before := other.node.State().Proposed().Epoch()
		w.net.Cut(leader.name, laggard.name) // it confirms entries, and receives none
		w.start("d")                         // a join appends entries
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
