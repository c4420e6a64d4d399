package node_test

import (
	"testing"
	"time"

	"shardway/node"
)

// The Raft library reports leadership before its first entry is on the disk, and accepts no entries until then: a barrier, or the founding
// of the cluster, fails after a second. Once, these were tried once a term, and the term of a lone voter never changes: half an hour later
// it led and granted no lease.
func TestOnlyVoterWithASlowDiskServes(t *testing.T) {
	t.Parallel()
	for _, slow := range []time.Duration{time.Second, 1500 * time.Millisecond, 4 * time.Second} {
		bubble(t, func(w *world) {
			w.writes = slow
			w.start("a")
			w.untilSettled("a")
			a := w.all["a"]
			a.kill()
			a.disk.slow(slow)
			a.restart()
			w.until("a serves again", func() bool { return a.started() && a.node.Leased() })
		})
	}
}

// One write of a second is enough, if it is the first one of the term.
func TestOneSlowWriteAtTheElectionDoesNotWedge(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.untilSettled("a")
		a := w.all["a"]
		a.kill()
		a.disk.slow(2500 * time.Millisecond)
		a.restart()
		w.until("a leads", func() bool { return a.started() && a.node.Leads() })
		time.Sleep(1100 * time.Millisecond)
		a.disk.slow(0)
		w.within(time.Minute, "a serves again", func() bool { return a.node.Leased() })
	})
}

// A cluster is founded although its disks are slow, as on machines that have just started; the founder is a lone voter. Every node responds
// to /readyz in the meantime. Once, the founder held a lock during its first writes, and /readyz waited for them (in this test forever, because
// no time passes then).
func TestClusterWithSlowDisksIsBorn(t *testing.T) {
	t.Parallel()
	for _, slow := range []time.Duration{1200 * time.Millisecond, 300 * time.Millisecond}[:share(2, 1)] {
		bubble(t, func(w *world) {
			w.writes = slow
			w.tune = func(o *node.Options) { o.BootstrapExpect = 3 }
			for _, n := range []string{"a", "b", "c"} {
				w.start(n)
			}
			w.within(5*time.Minute, "a map is committed", func() bool {
				for _, p := range w.running() {
					if p.started() && p.node.API().Ready() == nil && p.node.State().Committed().Epoch() == 0 {
						w.t.Errorf("%s is ready without a map", p.name)
					}
				}
				return w.all["a"].started() && w.committed().Epoch() > 0
			})
			for _, p := range w.running() {
				p.disk.well()
			}
			w.untilSettled("a", "b", "c")
			w.untilVoters(3)
		})
	}
}
