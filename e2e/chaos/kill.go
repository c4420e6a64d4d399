//go:build linux

package chaos

import "shardway/e2e/kit/cluster"

// kill sends kill -9 to a node. Its app continues.
type kill struct {
	role   role
	victim *cluster.Node
	// restartsQuickly restarts the node before other nodes can detect its death.
	restartsQuickly bool
}

func (k *kill) name() string { return "kill -9 " + k.role.String() }

func (k *kill) begin(sc *scenario) {
	k.restartsQuickly = sc.rng.IntN(3) == 0
	k.victim = sc.pickNode(k.role)
	sc.killNode(k.victim)
}

func (k *kill) whileActive(sc *scenario) {
	if k.restartsQuickly {
		sc.startNode(k.victim)
		sc.awaitLoad()
		return
	}
	sc.awaitOthers(k.victim)
	sc.awaitLoad()
}

func (k *kill) end(sc *scenario) { sc.startNode(k.victim) }

// killAll sends kill -9 to every node at once. All state must come back from disk.
type killAll struct{}

func (*killAll) name() string { return "kill -9 all" }

func (*killAll) exclusive() {}

func (*killAll) begin(sc *scenario) {
	for _, node := range sc.members {
		sc.killNode(node)
	}
}

func (*killAll) end(sc *scenario) {
	for _, node := range sc.members {
		sc.startNode(node)
	}
}
