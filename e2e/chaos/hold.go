//go:build linux

package chaos

import (
	"slices"

	"shardway/e2e/kit/cluster"
)

// hold restarts a node in place: its shards wait for the node instead of moving. The node
// returns within its grace period, and no shard moves. With late, it returns only after the
// grace period, when other nodes have taken over its shards. No request may fail in either
// case.
type hold struct {
	returnsLate bool
	victim      *cluster.Node
}

func (f *hold) name() string {
	if f.returnsLate {
		return "restart in place after the grace period"
	}
	return "restart in place within the grace period"
}

func (*hold) exclusive() {}

func (*hold) begin(*scenario) {}

// whileActive stops and restarts a node with --on-shutdown hold, up to twice. With returnsLate, the node starts only after
// the other nodes have taken over its shards.
func (f *hold) whileActive(sc *scenario) {
	for range 1 + sc.rng.IntN(2) {
		holders := slices.DeleteFunc(sc.shuffledMembers(), func(node *cluster.Node) bool { return !node.RestartsInPlace() })
		if len(holders) == 0 {
			sc.tracef("no node with --on-shutdown hold") // The node that had --on-shutdown hold has left.
			return
		}
		f.victim = holders[0]
		sc.tracef("SIGTERM %s", f.victim.ID)
		f.victim.Stop(sc)
		if f.returnsLate {
			sc.awaitOthers(f.victim)
			sc.awaitLoad()
		}
		sc.startNode(f.victim)
		sc.awaitRecovery()
		if f.returnsLate {
			return
		}
	}
}

func (*hold) end(*scenario) {}
