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
	isLong bool
	victim *cluster.Node
}

func (p *pause) name() string {
	if p.isLong {
		return "long SIGSTOP of " + p.role.String()
	}
	return "short SIGSTOP of " + p.role.String()
}

func (p *pause) begin(sc *scenario) {
	p.victim = sc.pickNode(p.role)
	if !p.isLong {
		sc.pauseNode(p.victim)
		sc.sleep(time.Duration(100+sc.rng.IntN(200)) * time.Millisecond)
		sc.continueNode(p.victim)
		return
	}
	sc.traffic.sendLateWrites(sc.mapAtStart, p.victim)
	sc.sleep(150 * time.Millisecond) // The late writes have reached the app.
	sc.pauseNode(p.victim)
}

func (p *pause) whileActive(sc *scenario) {
	if p.isLong {
		sc.awaitOthers(p.victim)
	}
	sc.awaitLoad()
}

func (p *pause) end(sc *scenario) {
	if !p.isLong {
		return
	}
	sc.continueNode(p.victim)
	if sc.opts.Embedded {
		sc.restartExited(p.victim) // The node exits if its app continues after the abort (docs/apps/embed.md).
	}
}

// repeatedPause sends SIGSTOP and SIGCONT in quick succession.
type repeatedPause struct{ victim *cluster.Node }

func (*repeatedPause) name() string { return "repeated SIGSTOP" }

func (p *repeatedPause) begin(sc *scenario) {
	p.victim = sc.pickNode(anyNode)
}

func (p *repeatedPause) whileActive(sc *scenario) {
	for range 8 + sc.rng.IntN(8) {
		sc.pauseNode(p.victim)
		sc.sleep(time.Duration(20+sc.rng.IntN(300)) * time.Millisecond)
		sc.continueNode(p.victim)
		sc.sleep(time.Duration(20+sc.rng.IntN(200)) * time.Millisecond)
	}
}

func (*repeatedPause) end(*scenario) {}
