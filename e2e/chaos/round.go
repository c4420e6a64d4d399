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
	for _, injected := range faults {
		all = append(all, injected.name())
	}
	return strings.Join(all, " + ")
}

const (
	// loadBeforeFaults is how long clients send requests before the faults of a round, and
	// loadAfterRecovery how long they continue after the end of the faults.
	loadBeforeFaults  = 500 * time.Millisecond
	loadAfterRecovery = 300 * time.Millisecond
)

// runRound injects one or two faults while clients send requests, waits until all nodes serve again,
// and checks what clients and apps observed.
func (sc *scenario) runRound(number int, faults []fault) *Round {
	sc.beginRound(number, faults)
	queuedBefore := sc.queuedByNode()
	if sc.opts.Caches {
		sc.emptyCaches()
		sc.staleReturns = watchStaleReturns(append(slices.Clone(sc.members), sc.spareNode))
		defer sc.staleReturns.stopAndCollect() // needed if the round ends early
	}
	sc.traffic.begin()
	sc.traffic.awaitLoad(sc, loadBeforeFaults)
	sc.injectFaults(faults)
	sc.awaitRecovery()
	sc.awaitLateExits()
	sc.endFaults()
	sc.traffic.awaitLoad(sc, loadAfterRecovery)
	sc.followers.awaitProgress()
	responses := sc.traffic.end()
	sc.tracef("all responses received")
	round := sc.checkRound(responses, sc.mapAtStart.Epoch)
	round.Number, round.Faults, round.Queued = number, joinNames(faults), sc.queuedSince(queuedBefore)
	return round
}

// beginRound resets the state of the round, and waits until all members serve. All random choices of the
// round depend only on the seed of the run and on the number of the round.
func (sc *scenario) beginRound(number int, faults []fault) {
	sc.roundNumber, sc.startedAt = number, history.Now()
	sc.rng = rand.New(rand.NewPCG(sc.opts.Seed, uint64(number)+1)) //nolint:gosec // must be reproducible
	sc.loadTime = time.Duration(1000+sc.rng.IntN(1500)) * time.Millisecond
	sc.hasTwoFaults, sc.affectedNodes, sc.exitingNodes = len(faults) > 1, nil, nil
	sc.tracef("round %d: %s", number, joinNames(faults))
	sc.leaderAtStart = sc.cluster.LeaderOf(sc, sc.members...)
	sc.tracef("%s is leader", sc.leaderAtStart.ID)
	sc.mapAtStart = sc.cluster.AwaitShards(sc, sc.members...)
}

// awaitLateExits waits for nodes with a disk fault, if the round has any. Such a node may exit only now,
// after a late write.
func (sc *scenario) awaitLateExits() {
	if len(sc.exitingNodes) == 0 {
		return
	}
	sc.awaitLoad()
	sc.awaitRecovery()
	for _, node := range sc.exitingNodes {
		sc.traffic.allowRetry(node)
	}
}

// injectFaults begins all faults, waits while they are active and clients send requests, and ends
// them.
func (sc *scenario) injectFaults(faults []fault) {
	for _, injected := range faults {
		sc.tracef("begin: %s", injected.name())
		injected.begin(sc)
	}
	for _, injected := range faults {
		if active, ok := injected.(activeFault); ok {
			active.whileActive(sc)
		} else {
			sc.awaitLoad()
		}
	}
	for _, injected := range faults {
		sc.tracef("end: %s", injected.name())
		injected.end(sc)
	}
}

// queuedByNode returns how many requests each running node has queued since its start.
func (sc *scenario) queuedByNode() map[*cluster.Node]float64 {
	counts := make(map[*cluster.Node]float64)
	for _, node := range sc.cluster.Running() {
		if metrics, err := node.Metrics(sc.Context()); err == nil {
			counts[node] = metrics.Sum("shardway_queued_requests_total")
		}
	}
	return counts
}

// queuedSince returns how many requests the nodes have queued since before was returned by
// queuedByNode. It misses requests that a node counted before its process was killed.
func (sc *scenario) queuedSince(before map[*cluster.Node]float64) int {
	sum := 0.0
	for node, count := range sc.queuedByNode() {
		if count < before[node] {
			before[node] = 0 // a new process of the node counts from zero
		}
		sum += count - before[node]
	}
	return int(sum)
}
