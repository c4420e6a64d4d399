//go:build linux

package chaos

import (
	"time"

	"shardway/e2e/kit/cluster"
)

// pause sends SIGSTOP to a node, for less than a lease, or until the other nodes have
// taken over its shards.
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

func (p *pause) begin(sc *scenario) {
	p.victim = sc.pick(p.role)
	if !p.long {
		sc.sigstop(p.victim)
		sc.wait(time.Duration(100+sc.rng.IntN(200)) * time.Millisecond)
		sc.sigcont(p.victim)
		return
	}
	sc.traffic.sendLateWrites(sc.mapAtStart, p.victim)
	sc.wait(150 * time.Millisecond) // The late writes have reached the app.
	sc.sigstop(p.victim)
}

func (p *pause) during(sc *scenario) {
	if p.long {
		sc.awaitOthers(p.victim)
	}
	sc.awaitLoad()
}

func (p *pause) end(sc *scenario) {
	if !p.long {
		return
	}
	sc.sigcont(p.victim)
	if sc.o.Embedded {
		sc.restartExited(p.victim) // The node exits if its app continues after the abort (docs/apps/embed.md).
	}
}

// repeatedPause sends SIGSTOP and SIGCONT in quick succession.
type repeatedPause struct{ victim *cluster.Node }

func (*repeatedPause) name() string { return "repeated SIGSTOP" }

func (s *repeatedPause) begin(sc *scenario) {
	s.victim = sc.pick(anyNode)
}

func (s *repeatedPause) during(sc *scenario) {
	for range 8 + sc.rng.IntN(8) {
		sc.sigstop(s.victim)
		sc.wait(time.Duration(20+sc.rng.IntN(300)) * time.Millisecond)
		sc.sigcont(s.victim)
		sc.wait(time.Duration(20+sc.rng.IntN(200)) * time.Millisecond)
	}
}

func (*repeatedPause) end(*scenario) {}
