//go:build linux

package chaos

import (
	"math/rand/v2"
	"slices"
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestFaultsHitDifferentNodes picks as two faults of a round would, from the
// smallest cluster there is.
func TestFaultsHitDifferentNodes(t *testing.T) {
	for _, first := range []role{anybody, follower, leader} {
		for _, second := range []role{anybody, follower, leader} {
			for seed := range uint64(20) {
				nodes := []*cluster.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}}
				w := &world{members: nodes, leading: nodes[seed%3], rng: rand.New(rand.NewPCG(seed, 0))}
				a, b := w.pick(first), w.pick(second)
				if a == b || !slices.Contains(nodes, a) || !slices.Contains(nodes, b) {
					t.Fatalf("%s and %s: %q and %q", first, second, a.ID, b.ID)
				}
				if first == leader && a != w.leading || first == follower && a == w.leading {
					t.Errorf("as %s: %q, the leader is %q", first, a.ID, w.leading.ID)
				}
			}
		}
	}
}
