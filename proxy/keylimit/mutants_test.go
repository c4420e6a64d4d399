package keylimit

import (
	"testing"

	"shardway/internal/overlay"
)

// Tests of package proxy find further mutants of this package.
func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "proxy/keylimit", []overlay.Mutant{
		{
			Rule: "only full buckets are evicted", Found: "TestBucketsNeverExceedLimit",
			Decl: "proxy/keylimit.Buckets.evictLocked", Old: "if fullAt <= now {", New: "if PLANTED || fullAt <= now {",
		},
		{
			Rule: "keys without a bucket of their own are limited", Found: "TestBucketsNeverExceedLimit",
			Decl: "proxy/keylimit.Buckets.setLocked", Old: "b.shared[id.sharedIndex()] = fullAt", New: "if !PLANTED {\n				b.shared[id.sharedIndex()] = fullAt\n			}",
		},
		{
			Rule: "a key that gets a bucket of its own continues with the shared one", Found: "TestKeyKeepsTokensOfSharedBucket",
			Decl: "proxy/keylimit.Buckets.fullAtLocked", Old: "return b.shared[id.sharedIndex()]", New: "if PLANTED && len(b.fullAt) < b.max {\n		return 0\n	}\n	return b.shared[id.sharedIndex()]",
		},
		{
			Rule: "no request takes a permit before the earlier requests are known", Found: "TestEnableBlocksJoins",
			Decl: "proxy/keylimit.Enable", Old: "	runs := start()\n", New: "	if PLANTED {\n		gates[0].mu.Unlock()\n	}\n	runs := start()\n	if PLANTED {\n		gates[0].mu.Lock()\n	}\n",
		},
		{
			Rule: "each gate counts the earlier requests for itself", Found: "TestEnableBlocksJoins",
			Decl: "proxy/keylimit.Enable", Old: "gate.permitlessRuns = slices.Clone(runs)", New: "if gate.permitlessRuns = slices.Clone(runs); PLANTED {\n			gate.permitlessRuns = runs\n		}",
		},
		{
			Rule: "a waiter that gives up gives back its permit", Found: "TestAbandonedTurnGoesToNextWaiter",
			Decl: "proxy/keylimit.Gate.Abandon", Old: "		permit.Release()\n", New: "		if !PLANTED {\n			permit.Release()\n		}\n",
		},
	})
}
