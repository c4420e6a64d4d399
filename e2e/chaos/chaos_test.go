//go:build linux

package chaos_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"shardway/e2e/chaos"
)

var (
	length = flag.Duration("chaos.for", 75*time.Second, "how long each of the two clusters is hurt")
	seed   = flag.Uint64("chaos.seed", 0, "seed of the schedule; 0: a new one, which is printed")
	only   = flag.String("chaos.faults", "", "regular expression for the faults to have")
	fence  = flag.String("chaos.fence", "", "fence of the nodes; empty: lease, and in a soak one by the seed")
	nodes  = flag.Int("chaos.nodes", 0, "hurt only the cluster of three, or of five; 0: both")
)

// TestChaos hurts a cluster of three nodes and one of five side by side: between
// the five there is TLS.
func TestChaos(t *testing.T) { //nolint:tparallel // no other test of the package is to run beside it
	if err := chaos.Available(); err != nil {
		t.Skipf("no chaos here: %v", err)
	}
	faults, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("seed %d", *seed)
	if *fence == "" {
		*fence = "lease"
		if *length > 5*time.Minute {
			*fence = []string{"lease", "lease", "strict", "refused"}[*seed%4]
		}
	}
	b := binaries(t)
	for i, n := range []int{3, 5} {
		if *nodes != 0 && *nodes != n {
			continue
		}
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			r := chaos.Run(t, chaos.Options{
				Binaries: b, Nodes: n, For: *length, Seed: *seed, Faults: faults, Network: 1 + i,
				Backwards: n == 5, Secret: n == 5, Pairs: true, Fence: *fence,
			})
			t.Log(r)
			if err := r.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
