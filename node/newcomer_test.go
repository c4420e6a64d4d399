package node_test

import (
	"testing"
	"time"

	"shardway/shardmap"
)

// A new node gets its first lease one or two heartbeats after its start, because a quorum of voters must confirm it first. Once, it got
// shards before, and no node served them for that time.
func TestNewcomerHasALeaseWhenItsShardsCome(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for i := range share(8, 1) {
			three(t, func(w *world) {
				w.start("d")
				w.start("e")
				w.untilSettled("a", "b", "c", "d", "e")
				w.untilVoters(5)
				time.Sleep(time.Duration(i) * 13 * time.Millisecond) // another offset between two heartbeats
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
