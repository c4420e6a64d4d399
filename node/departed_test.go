package node_test

import "testing"

// A node that joins after an election shows the same nodes as left or failed as all others,
// although their servers have been removed, and gossip does not name them to it.
func TestNodesThatJoinLaterShowDepartedNodes(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		left, leader := w.follower(), w.leader()
		left.terminate()
		rest := w.others(left)
		w.untilSettled(rest...)
		w.start("d")
		rest = append(rest, "d")
		w.untilSettled(rest...)
		w.untilServers(rest...)
		w.untilVoters(3)
		leader.kill()
		rest = w.others(leader)
		w.untilSettled(rest...)
		w.start("e")
		rest = append(rest, "e")
		w.untilSettled(rest...)
		w.untilServers(rest...)
		for _, at := range w.running() {
			w.until(at.name+" shows that one left and another one failed", func() bool {
				return w.listed(at, left.name).State == "left" && w.listed(at, leader.name).State == "failed"
			})
		}
	})
}
