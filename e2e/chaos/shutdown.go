//go:build linux

package chaos

// noFault injects nothing. Its round shows how long requests take on this machine without
// faults.
type noFault struct{}

func (*noFault) name() string { return "no fault" }

func (*noFault) begin(*scenario) {}

func (*noFault) end(*scenario) {}

// rolling restarts every node in turn with SIGTERM. A node that restarts in place is started
// again immediately. Any other node is started again when the others serve its shards. No
// request may fail.
type rolling struct{}

func (*rolling) name() string { return "rolling SIGTERM" }

func (*rolling) exclusive() {}

func (*rolling) begin(*scenario) {}

func (*rolling) whileActive(sc *scenario) {
	for _, i := range sc.rng.Perm(len(sc.members)) {
		node := sc.members[i]
		sc.tracef("SIGTERM %s", node.ID)
		node.Stop(sc)
		if !node.RestartsInPlace() {
			sc.awaitOthers(node)
		}
		sc.startNode(node)
		sc.awaitRecovery()
	}
}

func (*rolling) end(*scenario) {}

// stepDown makes the leader transfer leadership several times. No request may fail, and
// no shard moves.
type stepDown struct{}

func (*stepDown) name() string { return "step-down" }

func (*stepDown) exclusive() {}

func (*stepDown) begin(*scenario) {}

func (*stepDown) whileActive(sc *scenario) {
	for range 1 + sc.rng.IntN(3) {
		node := sc.cluster.LeaderOf(sc, sc.members...)
		sc.tracef("%s steps down", node.ID)
		if err := node.TryAction(sc.Context(), "step-down", nil); err != nil {
			sc.tracef("%v", err) // It stays leader, or has stepped down nevertheless.
		}
		sc.awaitRecovery()
	}
}

func (*stepDown) end(*scenario) {}
