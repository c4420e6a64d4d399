package node_test

import (
	"testing"
	"time"

	"shardway/shardmap"
)

// A node has its first lease a heartbeat or two after it is there, for that takes
// a word of a quorum of voters since. It used to be given shards before, and for
// that long nobody served them.
func TestNewcomerHasALeaseWhenItsShardsCome(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for i := range share(8, 1) {
			three(t, func(w *world) {
				w.start("d")
				w.start("e")
				w.untilSettled("a", "b", "c", "d", "e")
				w.untilVoters(5)
				time.Sleep(time.Duration(i) * 13 * time.Millisecond) // elsewhere between two heartbeats
				name := "f"
				if restart {
					name = w.follower().name
					w.all[name].kill()
					w.untilSettled(w.others(w.all[name])...)
					w.all[name].restart()
				} else {
					w.start(name)
				}
				w.until("it has shards", func() bool {
					p := w.all[name]
					if c := w.leader().node.State().Committed(); c.ShardCount(shardmap.NodeID(name)) == 0 {
						return false
					}
					if !p.node.Leased() {
						w.t.Errorf("%s was given shards and has no lease", name)
					}
					return true
				})
				time.Sleep(time.Second)
			})
		}
	}
}
