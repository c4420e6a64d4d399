//go:build linux

package chaos

import "shardway/e2e/kit/cluster"

// kill sends kill -9 to a node. Its app continues.
type kill struct {
	role   role
	victim *cluster.Node
	// quick restarts the node before other nodes can detect its death.
	quick bool
}

func (k *kill) name() string { return "kill -9 " + k.role.String() }

func (k *kill) begin(sc *scenario) {
	k.quick = sc.rng.IntN(3) == 0
	k.victim = sc.pick(k.role)
	sc.kill(k.victim)
}

func (k *kill) during(sc *scenario) {
	if k.quick {
		sc.start(k.victim)
		sc.awaitLoad()
		return
	}
	sc.awaitOthers(k.victim)
	sc.awaitLoad()
}

func (k *kill) end(sc *scenario) { sc.start(k.victim) }

// killAll sends kill -9 to every node at once. All state must come back from disk.
type killAll struct{}

func (*killAll) name() string { return "kill -9 all" }

func (*killAll) exclusive() {}

func (*killAll) begin(sc *scenario) {
	for _, node := range sc.members {
		sc.kill(node)
	}
}

func (*killAll) end(sc *scenario) {
	for _, node := range sc.members {
		sc.start(node)
	}
}
