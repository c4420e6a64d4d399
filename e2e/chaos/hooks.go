//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// badHooks makes one app fail to acquire and another app fail to release, while a drain
// moves shards from the second to the first. No request may fail.
type badHooks struct{ newOwner, oldOwner *cluster.Node }

func (*badHooks) name() string { return "bad hooks" }

// exclusive excludes other faults, because they could make the cluster refuse the drain, or
// the drain would wait for the faulty nodes.
func (*badHooks) exclusive() {}

func (f *badHooks) begin(sc *scenario) {
	f.oldOwner = sc.pickNode(anyNode)
	f.newOwner = sc.pickNode(anyNode)
	for f.newOwner == f.oldOwner {
		f.newOwner = sc.members[sc.rng.IntN(len(sc.members))]
	}
	faults := []string{"slow:200ms", "500", "huge", "garbage", "gone", "hang", "twice", "unable"}
	acquire := faults[sc.rng.IntN(len(faults))]
	faults = append(faults, "absent")
	release := faults[sc.rng.IntN(len(faults))]
	sc.tracef("acquire fault at %s: %s; release fault at %s, which is drained: %s", f.newOwner.ID, acquire, f.oldOwner.ID, release)
	f.newOwner.App.SetHookFault(sc, "acquire", acquire)
	f.oldOwner.App.SetHookFault(sc, "release", release)
	sc.drainNode(f.oldOwner)
}

// during waits until the drained node owns no shard, although its release hook is faulty.
// Then it waits for further load on the node with the faulty acquire hook.
func (f *badHooks) during(sc *scenario) {
	sc.awaitEmpty(f.oldOwner)
	sc.traffic.awaitLoad(sc, 500*time.Millisecond)
}

func (f *badHooks) end(sc *scenario) {
	f.newOwner.App.SetHookFault(sc, "acquire", "well")
	f.oldOwner.App.SetHookFault(sc, "release", "well")
	sc.withdrawRequests(f.oldOwner)
}

// checkCounters checks the counters that the apps store in their hooks, and returns the violations.
// Each POST of a key that is no register increments the counter of the key once, also while shards
// move or processes die. So no two POST requests of a key have the same count, and the count of a
// request is at least that of each POST request that ended before it began. Shards that ran on two
// nodes at the same time for an excused reason are not checked, because only a store that checks
// epochs is protected against that.
func (sc *scenario) checkCounters(responses []history.Response, report *history.Report) (violations []string) {
	byKey := make(map[string][]history.Response)
	for _, resp := range responses {
		if shard := uint32(load.ShardOf(resp.Key, sc.opts.Shards)); resp.OK() && resp.Register == "" && report.OverlapsByShard[shard] == 0 {
			byKey[resp.Key] = append(byKey[resp.Key], resp)
		}
	}
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b history.Response) int { return int(a.Sent() - b.Sent()) })
		postByCount := make(map[uint64]string)
		for i, resp := range all {
			isPost := resp.Method == "POST"
			if other := postByCount[resp.Count]; isPost && other != "" {
				violations = append(violations, fmt.Sprintf("%s: %s and %s both have count %d", key, other, resp.ID, resp.Count))
			}
			if isPost {
				postByCount[resp.Count] = resp.ID
			}
			for _, earlier := range all[:i] {
				if earlier.Method == "POST" && earlier.Done() < resp.Sent() && (resp.Count < earlier.Count || isPost && resp.Count == earlier.Count) {
					violations = append(violations, fmt.Sprintf("%s: %s has count %d, %v after %s had count %d", key, resp.ID, resp.Count, time.Duration(resp.Sent()-earlier.Done()), earlier.ID, earlier.Count))
				}
			}
		}
	}
	return violations
}
