package node_test

import (
	"testing"
	"time"
)

// When a stopped node is replaced by a new one, the new node takes over its vote. Once, there were four voters for good, one of which had
// left, and nodes did not agree on whether it had left or failed.
func TestReplacementTakesTheVoteOfANodeThatLeft(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		rest := w.others(p)
		p.terminate()
		w.untilSettled(rest...)
		for _, at := range w.running() {
			w.until(at.name+" shows that it left", func() bool { return w.listed(at, p.name).State == "left" })
		}
		w.start("d")
		all := append(rest, "d")
		w.untilSettled(all...)
		w.untilServers(all...)
		w.untilVoters(3)
	})
}

// After a crash, the dead voter has ten seconds to return before a new node takes over its vote.
func TestReplacementTakesTheVoteOfADeadNode(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		rest := w.others(p)
		p.kill()
		w.untilSettled(rest...)
		w.start("d")
		all := append(rest, "d")
		w.untilSettled(all...)
		w.untilVoters(4)
		began := time.Now()
		w.untilServers(all...)
		if took := time.Since(began); took > 15*time.Second {
			w.t.Errorf("the dead voter is removed after %v", took)
		}
		w.untilVoters(3)
		p.restart() // it may return all the same
		w.untilSettled(append(all, p.name)...)
	})
}
