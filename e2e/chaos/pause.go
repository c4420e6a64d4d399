//go:build linux

package chaos

import (
	"time"

	"shardway/e2e/kit/cluster"
)

// pause is SIGSTOP of a node, for less than a lease, or until the others have
// taken its shards.
type pause struct {
	role   role
	long   bool
	victim *cluster.Node
}

func (p *pause) name() string {
	if p.long {
		return "long SIGSTOP of " + p.role.String()
	}
	return "short SIGSTOP of " + p.role.String()
}

func (p *pause) begin(w *world) {
	p.victim = w.pick(p.role)
	if !p.long {
		w.stop(p.victim)
		w.wait(time.Duration(100+w.rng.IntN(200)) * time.Millisecond)
		w.cont(p.victim)
		return
	}
	w.traffic.late(w.first, p.victim)
	w.wait(150 * time.Millisecond) // they are in the app
	w.stop(p.victim)
}

func (p *pause) during(w *world) {
	if p.long {
		w.carryOn(p.victim)
	}
	w.flow()
}

func (p *pause) end(w *world) {
	if !p.long {
		return
	}
	w.cont(p.victim)
	if w.o.Embedded {
		w.revive(p.victim) // it ends if what it ran goes on after the cut (docs/apps/embed.md)
	}
}

// stutter is SIGSTOP and SIGCONT in quick turns.
type stutter struct{ victim *cluster.Node }

func (*stutter) name() string { return "stutter" }

func (s *stutter) begin(w *world) {
	s.victim = w.pick(anybody)
}

func (s *stutter) during(w *world) {
	for range 8 + w.rng.IntN(8) {
		w.stop(s.victim)
		w.wait(time.Duration(20+w.rng.IntN(300)) * time.Millisecond)
		w.cont(s.victim)
		w.wait(time.Duration(20+w.rng.IntN(200)) * time.Millisecond)
	}
}

func (*stutter) end(*world) {}
