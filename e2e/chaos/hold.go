//go:build linux

package chaos

import (
	"slices"

	"shardway/e2e/kit/cluster"
)

// hold restarts a node in place: it comes back within its grace, and nothing moves; or
// only when that is over and others have its shards. Nothing fails.
type hold struct {
	late   bool
	victim *cluster.Node
}

func (f *hold) name() string {
	if f.late {
		return "hold past the grace"
	}
	return "hold within the grace"
}

func (*hold) alone() {}

func (*hold) begin(*world) {}

func (f *hold) during(w *world) {
	for range 1 + w.rng.IntN(2) {
		holders := slices.DeleteFunc(w.shuffled(), func(n *cluster.Node) bool { return !n.Holds() })
		if len(holders) == 0 {
			w.note("nobody holds") // who did has left
			return
		}
		f.victim = holders[0]
		w.note("SIGTERM %s", f.victim.ID)
		f.victim.Stop(w)
		if f.late {
			w.carryOn(f.victim)
			w.flow()
		}
		w.start(f.victim)
		w.recover()
		if f.late {
			return
		}
	}
}

func (*hold) end(*world) {}
