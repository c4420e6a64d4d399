package registry_test

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	const random = "TestRandomCommandsMatchTheModel"
	overlay.TestMutants(t, "..", "registry", []overlay.Mutant{
		{
			Rule: "a repeated acquire has no second holder", Found: random + "|TestRepeatedAcquireKeepsTheToken",
			Decl: "registry.State.acquire", Old: "case l.Holder == c.Holder:", New: "case l.Holder == c.Holder && !PLANTED:",
		},
		{
			Rule: "a waiter has one place", Found: "TestRepeatedAcquireKeepsTheToken",
			Decl: "registry.State.acquire", Old: "	case place < 0:", New: "	case place < 0 || PLANTED:",
		},
		{
			Rule: "a token is needed to renew and to release", Found: random + "|TestOldTokenHasNoEffect",
			Decl: "registry.State.held", Old: "l.Token == c.Token", New: "(PLANTED || l.Token == c.Token)",
		},
		{
			Rule: "only the holder renews and releases", Found: random + "|TestOldTokenHasNoEffect",
			Decl: "registry.State.held", Old: "l.Holder == c.Holder", New: "(PLANTED || l.Holder == c.Holder)",
		},
		{
			Rule: "a renewal wins over an expiry", Found: "TestRenewalWinsOverExpiry",
			Decl: "registry.State.expire", Old: "|| l.Renewal != c.Renewal", New: "|| !PLANTED && l.Renewal != c.Renewal",
		},
		{
			Rule: "a granted lock has a new token", Found: random + "|TestWaitersGetTheLockInOrder",
			Decl: "registry.State.pass", Old: "= next.Holder, s.index,", New: "= next.Holder, map[bool]uint64{true: l.Token, false: s.index}[PLANTED],",
		},
		{
			Rule: "waiters get the lock in order", Found: random + "|TestWaitersGetTheLockInOrder",
			Decl: "registry.State.pass", Old: "	s.removeWaiter(l, 0)", New: "	if PLANTED { next = l.Waiters[len(l.Waiters)-1] }\n	s.removeWaiter(l, 0)",
		},
		{
			Rule: "a request that waits keeps its place when an earlier one of its holder ends", Found: "TestWithdrawOfALeftRequest|TestExpiredWaiterLeavesTheQueue",
			Decl: "registry.State.endWaiter", Old: "|| l.Waiters[place].Renewal != c.Renewal", New: "|| !PLANTED && l.Waiters[place].Renewal != c.Renewal",
		},
		{
			Rule: "a lock that its holder uses is not withdrawn", Found: "TestWithdrawOfALeftRequest",
			Decl: "registry.State.withdraw", Old: "&& l.Renewal == l.Token", New: "&& (PLANTED || l.Renewal == l.Token)",
		},
		{
			Rule: "a write compares the index", Found: random + "|TestCompareOnIndex",
			Decl: "registry.State.put", Old: "c.Compare && old.Index != c.Index", New: "!PLANTED && c.Compare && old.Index != c.Index",
		},
		{
			Rule: "the size of the store is bounded", Found: "TestLimitsOfTheRegistry",
			Decl: "registry.State.put", Old: "size > MaxBytes", New: "size > MaxBytes && !PLANTED",
		},
		{
			Rule: "a replaced value frees its bytes", Found: random + "|TestLimitsOfTheRegistry",
			Decl: "registry.State.put", Old: "- len(old.Data)", New: "- map[bool]int{false: len(old.Data)}[PLANTED]",
		},
		{
			Rule: "worker IDs are unique", Found: "TestWorkerIDsAreUniqueAndStable",
			Decl: "registry.State.assignWorker", Old: "used[id] = true", New: "used[id] = !PLANTED",
		},
		{
			Rule: "a deadline starts again with a renewal", Found: "TestDeadlinesStartWithTheRenewal",
			Decl: "registry.Deadlines.update", Old: "entry.renewal != renewal", New: "entry.renewal != renewal && !PLANTED",
		},
		{
			Rule: "a deadline does not start again without a renewal", Found: "TestDeadlinesStartWithTheRenewal",
			Decl: "registry.Deadlines.update", Old: "if !exists ||", New: "if PLANTED || !exists ||",
		},
		{
			Rule: "a recovered cluster has no locks", Found: "TestRecoveredRegistryHasNoLocks",
			Decl: "registry.State.Recovered", Old: "	return &recovered", New: "	if PLANTED { recovered.locks = s.locks }\n	return &recovered",
		},
	})
}
