package node_test

import (
	"fmt"
	"testing"
	"time"

	"shardway/node"
)

// When all nodes restart in place together, or shortly after each other, the leader ends last, because it must commit that the shards of
// the others wait for them.
func TestAllRestartInPlaceAtOnce(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{2, 3, 5} {
		for _, gap := range []time.Duration{0, 30 * time.Millisecond, 100 * time.Millisecond} {
			t.Run(fmt.Sprintf("%d nodes, one every %v", nodes, gap), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(w *world) {
					c := w.carried()
					hooked := w.tune
					w.tune = func(o *node.Options) {
						hooked(o)
						o.HoldGrace = time.Minute
					}
					var names []string
					for i := range nodes {
						names = append(names, string(rune('a'+i)))
						w.start(names[i])
					}
					w.untilSettled(names...)
					w.untilVoters(nodes)
					w.until("every shard is served", w.allServed)
					for round := range 3 {
						released, _, as, _ := c.figures()
						for _, name := range names {
							w.all[name].stop()
							time.Sleep(gap)
						}
						for _, name := range names {
							<-w.all[name].done
							w.all[name].host.Crash()
						}
						for _, name := range names {
							w.all[name].restart()
						}
						w.untilSettled(names...)
						w.until("every shard is served", w.allServed)
						now, _, asNow, wrong := c.figures()
						if now-released != shards || asNow-as != shards || len(wrong) > 0 {
							w.t.Errorf("round %d: %d shards were released and %d acquired as released, want %d: %v", round, now-released, asNow-as, shards, wrong)
						}
					}
				})
			})
		}
	}
}
