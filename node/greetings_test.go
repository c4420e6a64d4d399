package node_test

import (
	"testing"
	"time"
)

// TestFollowersKnowOfEachOtherWithoutDelay: who greets is believed only by whom it dialled, so
// a voter that was started again has to be greeted back by those that do not lead, and what it
// says of its disk is to be known to them soon after it has changed, though nobody greets at rest.
func TestFollowersKnowOfEachOtherWithoutDelay(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		names := w.others(w.leader())
		one, other := w.all[names[0]], w.all[names[1]]
		for range 3 {
			time.Sleep(time.Minute)
			server := one.node.Server()
			boot := other.node.Knows(server).Boot
			one.kill()
			one.restart()
			w.within(2*time.Second, other.name+" knows of the new process of "+one.name, func() bool { return other.node.Knows(server).Boot > boot })
			w.untilSettled("a", "b", "c")
			w.within(5*time.Second, "what it says of its map is known", func() bool {
				return other.node.Knows(server).Applied == uint64(w.committed().Epoch())
			})
		}
	})
}
