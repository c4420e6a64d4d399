//go:build linux

package chaos

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// joinNames returns the names of faults that were injected together.
func joinNames(faults []fault) string {
	var all []string
	for _, f := range faults {
		all = append(all, f.name())
	}
	return strings.Join(all, " + ")
}

// runRound injects one or more faults under load, and checks the result.
func (sc *scenario) runRound(number int, faults []fault) *Round {
	sc.roundNumber, sc.rng = number, rand.New(rand.NewPCG(sc.opts.Seed, uint64(number)+1)) //nolint:gosec // must be reproducible
	sc.loadTime = time.Duration(1000+sc.rng.IntN(1500)) * time.Millisecond
	sc.hasTwoFaults, sc.affectedNodes, sc.exiting, sc.startedAt = len(faults) > 1, nil, nil, history.Now()
	sc.tracef("round %d: %s", number, joinNames(faults))
	sc.leaderAtStart = sc.cluster.LeaderOf(sc, sc.members...)
	sc.tracef("%s is leader", sc.leaderAtStart.ID)
	sc.mapAtStart = sc.cluster.AwaitShards(sc, sc.members...)
	queuedBefore := sc.queuedByNode()
	if sc.opts.Caches {
		sc.emptyCaches()
		sc.staleReturns = watchStaleReturns(append(slices.Clone(sc.members), sc.spareNode))
		defer sc.staleReturns.stopAndCollect() // also if the round ends early
	}
	sc.traffic.begin()
	sc.traffic.awaitLoad(sc, 500*time.Millisecond)
	for _, f := range faults {
		sc.tracef("begin: %s", f.name())
		f.begin(sc)
	}
	for _, f := range faults {
		if active, ok := f.(activeFault); ok {
			active.during(sc)
		} else {
			sc.awaitLoad()
		}
	}
	for _, f := range faults {
		sc.tracef("end: %s", f.name())
		f.end(sc)
	}
	sc.awaitRecovery()
	if len(sc.exiting) > 0 {
		sc.awaitLoad() // A node with a disk fault may exit only now, after a late write.
		sc.awaitRecovery()
		for _, node := range sc.exiting {
			sc.traffic.allowRetry(node)
		}
	}
	sc.endFaults()
	sc.traffic.awaitLoad(sc, 300*time.Millisecond)
	sc.followers.awaitProgress()
	responses := sc.traffic.end()
	sc.tracef("all responses received")
	round := sc.checkRound(responses, sc.mapAtStart.Epoch)
	round.Number, round.Faults, round.Queued = number, joinNames(faults), sc.queuedSince(queuedBefore)
	return round
}

// queuedByNode returns the number of queued requests of each node.
func (sc *scenario) queuedByNode() map[*cluster.Node]float64 {
	counts := make(map[*cluster.Node]float64)
	for _, node := range sc.cluster.Running() {
		if metrics, err := node.Metrics(sc.Context()); err == nil {
			counts[node] = metrics.Sum("shardway_queued_requests_total")
		}
	}
	return counts
}

// queuedSince returns the increase since before. Requests that a node counted before its
// death are missing.
func (sc *scenario) queuedSince(before map[*cluster.Node]float64) int {
	sum := 0.0
	for node, count := range sc.queuedByNode() {
		if count < before[node] {
			before[node] = 0 // the node was started again
		}
		sum += count - before[node]
	}
	return int(sum)
}
