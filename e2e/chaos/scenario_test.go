//go:build linux

package chaos

import (
	"math/rand/v2"
	"slices"
	"testing"

	"shardway/e2e/kit/cluster"
)

// pick selects two nodes of the smallest cluster, as for two faults of a round.
func TestFaultsOfARoundAffectDifferentNodes(t *testing.T) {
	for _, first := range []role{anyNode, follower, leader} {
		for _, second := range []role{anyNode, follower, leader} {
			for seed := range uint64(20) {
				nodes := []*cluster.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}}
				sc := &scenario{members: nodes, leaderAtStart: nodes[seed%3], rng: rand.New(rand.NewPCG(seed, 0))}
				a, b := sc.pickNode(first), sc.pickNode(second)
				if a == b || !slices.Contains(nodes, a) || !slices.Contains(nodes, b) {
					t.Fatalf("%s and %s: %q and %q", first, second, a.ID, b.ID)
				}
				if first == leader && a != sc.leaderAtStart || first == follower && a == sc.leaderAtStart {
					t.Errorf("as %s: %q, the leader is %q", first, a.ID, sc.leaderAtStart.ID)
				}
			}
		}
	}
}
