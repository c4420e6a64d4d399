//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/linear"
	"shardway/e2e/kit/load"
)

// checkRound checks the observations of a round and returns the result. first is the epoch
// of the map at the start of the round.
func (sc *scenario) checkRound(responses []history.Response, first uint64) *Round {
	maps := sc.mapsSince(first)
	runs, followers := sc.runsOf(responses), sc.followers.take()
	report := history.Check(history.History{Responses: responses, Followers: followers, Runs: slices.Concat(runs, sc.runsOfFollowers(followers)), Maps: sc.c.MapsSince(first), Faults: sc.c.Faults(), Waits: sc.c.Waits(), Drains: sc.drains, Cordons: sc.cordons}, sc.c.Rules())
	for i := range responses {
		sc.known[responses[i].ID] = responses[i].Denied()
	}
	round := &Round{History: report, Moved: countMoves(maps), Longest: maxLatency(responses)}
	registers := sc.registerResponses(responses, report)
	if sc.o.Hooks {
		for _, text := range sc.checkCounters(responses, report) {
			round.violate("counter", text)
		}
	}
	if sc.o.Caches {
		for _, text := range sc.findLostWrites(responses, report, sc.stale.take()) {
			round.violate("lost write", text)
		}
	}
	for _, violation := range report.Violations {
		round.violate(violation.Kind.String(), violation.Text)
	}
	if err := linear.Check(linear.Ops(registers, runs), linear.Options{Applied: sc.store.Applied()}); err != nil {
		round.violate("not linearizable", err.Error())
	}
	return round
}

// registerResponses returns the responses that must be linearizable: all except operations
// on unfenced registers in some shards. These shards ran on two nodes at the same time for
// an excused reason. Only a store that checks epochs (fencing) is protected against that.
func (sc *scenario) registerResponses(responses []history.Response, report *history.Report) []history.Response {
	return slices.DeleteFunc(slices.Clone(responses), func(resp history.Response) bool {
		return resp.Register == unfenced && report.Overlapped[uint32(load.ShardOf(resp.Key, sc.o.Shards))] > 0
	})
}

// checkAll checks the runs of all rounds together. It finds violations that span several
// rounds.
func (sc *scenario) checkAll() *Round {
	sc.followers.close()
	sc.followers.take() // Events after the last round only become known requests.
	rules := sc.c.Rules()
	rules.OtherRequests = sc.known
	report := history.Check(history.History{Runs: sc.c.Recorded(sc), Faults: sc.c.Faults(), Waits: sc.c.Waits()}, rules)
	round := &Round{Faults: "all rounds", History: report}
	for _, violation := range report.Violations {
		round.violate(violation.Kind.String(), violation.Text)
	}
	if n := sc.traffic.unsolicited(); n > 0 {
		round.violate("second response", fmt.Sprintf("%d bytes came on idle connections", n))
	}
	return round
}

// runsOf returns the runs of the requests with these responses. Before, it waits until each
// run whose response is complete has ended.
func (sc *scenario) runsOf(responses []history.Response) []history.Run {
	answered := make(map[string]bool, len(responses))
	for i := range responses {
		answered[responses[i].ID] = responses[i].OK()
	}
	var matching []history.Run
	cluster.Await(sc, "runs with a response have ended", func() error {
		matching = nil
		times, open := make(map[string]int), make(map[string]string)
		for _, run := range sc.c.Recorded(sc) {
			ok, asked := answered[run.ID]
			if !asked {
				continue
			}
			matching = append(matching, run)
			times[run.ID]++
			if ok && run.End == 0 {
				open[run.ID] = run.App
			}
		}
		for id, app := range open {
			if times[id] == 1 { // With several runs, the response may belong to another one.
				return fmt.Errorf("%s still runs %s", app, id)
			}
		}
		return nil
	})
	return matching
}

// runsOfFollowers returns the runs of the streams of the followers.
func (sc *scenario) runsOfFollowers(followers []history.Follower) (runs []history.Run) {
	ids := make(map[string]bool)
	for _, follower := range followers {
		for _, conn := range follower.Conns {
			ids[conn.ID] = true
		}
	}
	for _, run := range sc.c.Recorded(sc) {
		if ids[run.ID] {
			runs = append(runs, run)
		}
	}
	return runs
}

// countResumed returns the number of upstream connections that continued a stream.
func (sc *scenario) countResumed() (n int) {
	seen := make(map[string]bool)
	for _, run := range sc.c.Recorded(sc) {
		if !run.Resumes {
			continue
		}
		if seen[run.ID] {
			n++
		}
		seen[run.ID] = true
	}
	return n
}

// mapsSince returns the committed maps from an epoch on.
func (sc *scenario) mapsSince(epoch uint64) []cluster.Map {
	maps := sc.c.Maps()
	for len(maps) > 1 && maps[0].Epoch < epoch {
		maps = maps[1:]
	}
	return maps
}

// countMoves returns how many shards changed their owner from map to map.
func countMoves(maps []cluster.Map) int {
	n := 0
	for i := 1; i < len(maps); i++ {
		n += len(maps[i-1].Moves(maps[i]))
	}
	return n
}

// maxLatency returns the maximum time to a response, among requests that an app processes
// without delay.
func maxLatency(responses []history.Response) time.Duration {
	var most int64
	for i := range responses {
		if resp := &responses[i]; resp.Register != "" && resp.OK() {
			most = max(most, resp.Done()-resp.Sent())
		}
	}
	return time.Duration(most)
}
