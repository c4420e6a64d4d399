//go:build linux

package chaos

import "shardway/e2e/kit/cluster"

// kill is kill -9 of a node; its app goes on.
type kill struct {
	role   role
	victim *cluster.Node
	// hasty starts it again before anybody may have missed it.
	hasty bool
}

func (k *kill) name() string { return "kill -9 " + k.role.String() }

func (k *kill) begin(w *world) {
	k.hasty = w.rng.IntN(3) == 0
	k.victim = w.pick(k.role)
	w.kill(k.victim)
}

func (k *kill) during(w *world) {
	if k.hasty {
		w.start(k.victim)
		w.flow()
		return
	}
	w.carryOn(k.victim)
	w.flow()
}

func (k *kill) end(w *world) { w.start(k.victim) }

// killAll is kill -9 of every node at once: everything comes back from disk.
type killAll struct{}

func (*killAll) name() string { return "kill -9 all" }

func (*killAll) alone() {}

func (*killAll) begin(w *world) {
	for _, n := range w.members {
		w.kill(n)
	}
}

func (*killAll) end(w *world) {
	for _, n := range w.members {
		w.start(n)
	}
}
