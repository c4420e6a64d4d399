//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/linear"
)

// checkRound checks what clients and apps observed in a round. firstEpoch is the epoch of the map at
// the start of the round.
func (sc *scenario) checkRound(responses []history.Response, firstEpoch uint64) *Round {
	maps := sc.mapsSince(firstEpoch)
	runs, followers := sc.awaitRunsOf(responses), sc.followers.collect()
	observed := history.History{
		Responses: responses, Followers: followers, Runs: slices.Concat(runs, sc.runsOfFollowers(followers)),
		Maps: sc.cluster.MapsWithGapsSince(sc, firstEpoch), Faults: sc.cluster.Faults(), CPUWaits: sc.cluster.CPUWaits(),
		Drains: sc.drains, Cordons: sc.cordons,
	}
	rules := sc.cluster.Rules()
	rules.SeveralInstances = sc.opts.Instances > 1
	report := history.Check(observed, rules)
	for i := range responses {
		sc.checkedRequests[responses[i].ID] = responses[i].Denied()
	}
	round := &Round{History: report, Moved: countMoves(maps), Longest: maxLatency(responses)}
	registers := sc.registerResponses(responses, report)
	if sc.opts.Hooks {
		for _, text := range sc.checkCounters(responses, report) {
			round.addViolation("counter", text)
		}
	}
	if sc.opts.Caches {
		for _, text := range sc.findLostWrites(responses, report, sc.staleReturns.stopAndCollect()) {
			round.addViolation("lost write", text)
		}
	}
	for _, violation := range report.Violations {
		round.addViolation(violation.Kind.String(), violation.Text)
	}
	if err := linear.Check(linear.Ops(registers, runs), linear.Options{Applied: sc.store.Applied()}); err != nil {
		round.addViolation("not linearizable", err.Error())
	}
	return round
}

// registerResponses returns the responses whose register operations must be linearizable. It omits
// operations on unfenced registers in shards that ran on two nodes at the same time for a known, permitted
// reason. Only a store that checks epochs (fencing) is protected against that.
func (sc *scenario) registerResponses(responses []history.Response, report *history.Report) []history.Response {
	return slices.DeleteFunc(slices.Clone(responses), func(resp history.Response) bool {
		return resp.Register == unfenced && report.OverlapsByShard[sc.shardOf(resp)] > 0
	})
}

// checkAll checks the runs of all rounds together. It finds violations that span several
// rounds.
func (sc *scenario) checkAll() *Round {
	sc.followers.close()
	sc.followers.collect() // adds the requests since the last round to checkedRequests
	rules := sc.cluster.Rules()
	rules.OtherRequests = sc.checkedRequests
	report := history.Check(history.History{Runs: sc.cluster.RecordedRuns(sc), Faults: sc.cluster.Faults(), CPUWaits: sc.cluster.CPUWaits()}, rules)
	round := &Round{Faults: "all rounds", History: report}
	for _, violation := range report.Violations {
		round.addViolation(violation.Kind.String(), violation.Text)
	}
	if n := sc.traffic.unsolicited(); n > 0 {
		round.addViolation("second response", fmt.Sprintf("%d bytes came on idle connections", n))
	}
	return round
}

// awaitRunsOf returns the runs of the requests with these responses. It waits until each run whose
// response is complete has ended.
func (sc *scenario) awaitRunsOf(responses []history.Response) []history.Run {
	succeeded := make(map[string]bool, len(responses))
	for i := range responses {
		succeeded[responses[i].ID] = responses[i].OK()
	}
	var matching []history.Run
	cluster.Await(sc, "runs with a response have ended", func() error {
		matching = slices.DeleteFunc(sc.cluster.RecordedRuns(sc), func(run history.Run) bool {
			_, isListed := succeeded[run.ID]
			return !isListed
		})
		return checkRunsEnded(matching, succeeded)
	})
	return matching
}

// checkRunsEnded returns an error if the run of a request with a complete response has not ended. If a
// request has several runs, its response may belong to another run. succeeded contains, by request ID,
// whether the response is complete.
func checkRunsEnded(runs []history.Run, succeeded map[string]bool) error {
	runCount := make(map[string]int)
	for _, run := range runs {
		runCount[run.ID]++
	}
	for _, run := range runs {
		if run.End == 0 && succeeded[run.ID] && runCount[run.ID] == 1 {
			return fmt.Errorf("%s still runs %s", run.App, run.ID)
		}
	}
	return nil
}

// runsOfFollowers returns the runs of the streams of the followers.
func (sc *scenario) runsOfFollowers(followers []history.Follower) (runs []history.Run) {
	ids := make(map[string]bool)
	for _, follower := range followers {
		for _, conn := range follower.Conns {
			ids[conn.ID] = true
		}
	}
	for _, run := range sc.cluster.RecordedRuns(sc) {
		if ids[run.ID] {
			runs = append(runs, run)
		}
	}
	return runs
}

// countResumed returns the number of upstream connections that continued a stream.
func (sc *scenario) countResumed() (count int) {
	clients := make(map[string]bool)
	for _, run := range sc.cluster.RecordedRuns(sc) {
		if !run.Resumes {
			continue
		}
		if clients[run.ID] {
			count++
		}
		clients[run.ID] = true
	}
	return count
}

// mapsSince returns the committed maps from an epoch on.
func (sc *scenario) mapsSince(epoch uint64) []cluster.Map {
	maps := sc.cluster.Maps()
	for len(maps) > 1 && maps[0].Epoch < epoch {
		maps = maps[1:]
	}
	return maps
}

// countMoves returns how many changes of the owner of a shard there are between consecutive maps.
func countMoves(maps []cluster.Map) int {
	count := 0
	for i := 1; i < len(maps); i++ {
		count += len(maps[i-1].Moves(maps[i]))
	}
	return count
}

// maxLatency returns the longest latency of the register operations. Only these are measured, because the
// app responds to them immediately.
func maxLatency(responses []history.Response) time.Duration {
	var longest int64
	for i := range responses {
		if resp := &responses[i]; resp.Register != "" && resp.OK() {
			longest = max(longest, resp.DoneAt()-resp.SentAt())
		}
	}
	return time.Duration(longest)
}
