//go:build linux

package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// badHooks makes the acquire hook of one app and the release hook of another app faulty. In the meantime, a
// drain moves shards from the second app to the first. No request may fail. The faults are described in
// e2e/kit/testapp/hooks.go:
//   - "slow:D" waits before it succeeds, and "hang" waits until the fault is replaced.
//   - "500", "huge", "garbage" and "gone" respond incorrectly, or close the connection without a response.
//   - "twice" sends the response twice.
//   - "unable" reports all shards as failed, and "absent" reports that the app does not hold them.
//   - "none" removes the fault.
type badHooks struct{ newOwner, oldOwner *cluster.Node }

func (*badHooks) name() string { return "bad hooks" }

// exclusive marks this fault as one that never runs with others. They could make the cluster refuse the
// drain, or the drain would wait for the faulty nodes.
func (*badHooks) exclusive() {}

func (f *badHooks) begin(sc *scenario) {
	f.oldOwner = sc.pickNode(anyNode)
	f.newOwner = sc.pickNode(anyNode)
	for f.newOwner == f.oldOwner {
		f.newOwner = sc.members[sc.rng.IntN(len(sc.members))]
	}
	faults := []string{"slow:200ms", "500", "huge", "garbage", "gone", "hang", "twice", "unable"}
	acquire := faults[sc.rng.IntN(len(faults))]
	faults = append(faults, "absent") // only a release response can list absent shards
	release := faults[sc.rng.IntN(len(faults))]
	sc.tracef("acquire fault at %s: %s; release fault at %s, which is drained: %s", f.newOwner.ID, acquire, f.oldOwner.ID, release)
	f.newOwner.App.SetHookFault(sc, "acquire", acquire)
	f.oldOwner.App.SetHookFault(sc, "release", release)
	sc.drainNode(f.oldOwner)
}

// whileActive waits until the drained node owns no shard, although its release hook is faulty.
// Then it waits for further load on the node with the faulty acquire hook.
func (f *badHooks) whileActive(sc *scenario) {
	sc.awaitEmpty(f.oldOwner)
	sc.traffic.awaitLoad(sc, 500*time.Millisecond)
}

func (f *badHooks) end(sc *scenario) {
	f.newOwner.App.SetHookFault(sc, "acquire", "none")
	f.oldOwner.App.SetHookFault(sc, "release", "none")
	sc.withdrawRequests(f.oldOwner)
}

// checkCounters checks the counters that the apps store in their hooks, and returns the violations.
// Each POST of a key that is not a register increments the counter of the key exactly once, even while
// shards move or processes die. Shards that ran on two nodes at the same time for a known, permitted
// reason are not checked. Only a store that checks epochs is protected against that.
func (sc *scenario) checkCounters(responses []history.Response, report *history.Report) (violations []string) {
	byKey := responsesByKey(responses, func(resp history.Response) bool {
		return resp.OK() && resp.Register == "" && report.OverlapsByShard[sc.shardOf(resp)] == 0
	})
	for key, all := range byKey {
		violations = append(violations, findDuplicateCounts(key, all)...)
		violations = append(violations, findLostIncrements(key, all)...)
	}
	return violations
}

// findDuplicateCounts reports the POST requests of a key whose responses have the same count as an earlier
// POST request.
func findDuplicateCounts(key string, responses []history.Response) (violations []string) {
	postByCount := make(map[uint64]string) // request ID
	for _, resp := range responses {
		if resp.Method != http.MethodPost {
			continue
		}
		if other, ok := postByCount[resp.Count]; ok {
			violations = append(violations, fmt.Sprintf("%s: %s and %s both have count %d", key, other, resp.ID, resp.Count))
		}
		postByCount[resp.Count] = resp.ID
	}
	return violations
}

// findLostIncrements reports the requests of a key whose count does not include the increment of a POST
// request that had ended before they began. A POST request must have a higher count than that request, and
// any other request at least the same count. responses are in the order of their start.
func findLostIncrements(key string, responses []history.Response) (violations []string) {
	for i, resp := range responses {
		minIncrement := uint64(0)
		if resp.Method == http.MethodPost {
			minIncrement = 1
		}
		for _, earlier := range responses[:i] {
			precedes := earlier.Method == http.MethodPost && earlier.DoneAt() < resp.SentAt()
			if precedes && resp.Count < earlier.Count+minIncrement {
				violations = append(violations, fmt.Sprintf("%s: %s has count %d, %v after %s had count %d", key, resp.ID, resp.Count, time.Duration(resp.SentAt()-earlier.DoneAt()), earlier.ID, earlier.Count))
			}
		}
	}
	return violations
}

// responsesByKey groups responses by key, in the order of their start. It omits responses for which
// include returns false.
func responsesByKey(responses []history.Response, include func(history.Response) bool) map[string][]history.Response {
	byKey := make(map[string][]history.Response)
	for _, resp := range responses {
		if include(resp) {
			byKey[resp.Key] = append(byKey[resp.Key], resp)
		}
	}
	for _, all := range byKey {
		slices.SortFunc(all, func(a, b history.Response) int { return int(a.SentAt() - b.SentAt()) })
	}
	return byKey
}

// shardOf returns the shard of a request.
func (sc *scenario) shardOf(resp history.Response) uint32 {
	if sc.cluster == nil {
		return history.ShardOf(resp.Key, sc.opts.Shards, nil)
	}
	return uint32(sc.cluster.ShardOf(resp.Key))
}
