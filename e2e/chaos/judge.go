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

// judge judges a round. first is the epoch at its start.
func (w *world) judge(answers []history.Response, first uint64) *Round {
	maps := w.mapsSince(first)
	runs, followers := w.runsOf(answers), w.following.take()
	h := history.Check(history.History{Responses: answers, Followers: followers, Runs: slices.Concat(runs, w.legsOf(followers)), Maps: w.c.MapsSince(first), Faults: w.c.Faults(), Waits: w.c.Waits(), Drains: w.drains, Cordons: w.cordons}, w.c.Rules())
	for i := range answers {
		w.known[answers[i].ID] = answers[i].Denied()
	}
	r := &Round{History: h, Moved: moved(maps), Longest: longest(answers)}
	judged := w.linearizable(answers, h)
	if w.o.Hooks {
		for _, text := range w.counted(answers, h) {
			r.violate("counter", text)
		}
	}
	if w.o.Caches {
		for _, text := range w.lostWrites(answers, h, w.stale.take()) {
			r.violate("lost write", text)
		}
	}
	for _, v := range h.Violations {
		r.violate(v.Kind.String(), v.Text)
	}
	if err := linear.Check(linear.Ops(judged, runs), linear.Options{Applied: w.store.Applied()}); err != nil {
		r.violate("register", err.Error())
	}
	return r
}

// linearizable are the answers about registers that must be so: all but those about
// unfenced ones in shards of which two nodes ran requests at once, for a reason that
// only epochs help against.
func (w *world) linearizable(answers []history.Response, h *history.Report) []history.Response {
	return slices.DeleteFunc(slices.Clone(answers), func(a history.Response) bool {
		return a.Register == unfenced && h.Overlapped[uint32(load.ShardOf(a.Key, w.o.Shards))] > 0
	})
}

// finally judges all runs of all rounds together, for what reaches from one round
// into another.
func (w *world) finally() *Round {
	w.following.close()
	w.following.take() // what came after the last round counts only as known
	rules := w.c.Rules()
	rules.Known = w.known
	h := history.Check(history.History{Runs: w.c.Recorded(w), Faults: w.c.Faults(), Waits: w.c.Waits()}, rules)
	r := &Round{Faults: "all together", History: h}
	for _, v := range h.Violations {
		r.violate(v.Kind.String(), v.Text)
	}
	if n := w.traffic.unasked(); n > 0 {
		r.violate("second response", fmt.Sprintf("%d bytes came on idle connections", n))
	}
	return r
}

// runsOf waits until the runs that have an answer have an end, and returns those
// of these answers.
func (w *world) runsOf(answers []history.Response) []history.Run {
	answered := make(map[string]bool, len(answers))
	for i := range answers {
		answered[answers[i].ID] = answers[i].OK()
	}
	var mine []history.Run
	cluster.Await(w, "answered runs are recorded", func() error {
		mine = nil
		times, open := make(map[string]int), make(map[string]string)
		for _, run := range w.c.Recorded(w) {
			ok, asked := answered[run.ID]
			if !asked {
				continue
			}
			mine = append(mine, run)
			times[run.ID]++
			if ok && run.End == 0 {
				open[run.ID] = run.App
			}
		}
		for id, app := range open {
			if times[id] == 1 { // else the answer may be another run's
				return fmt.Errorf("%s still runs %s", app, id)
			}
		}
		return nil
	})
	return mine
}

// legsOf are the runs of their streams.
func (w *world) legsOf(followers []history.Follower) (legs []history.Run) {
	theirs := make(map[string]bool)
	for _, f := range followers {
		for _, c := range f.Follows {
			theirs[c.ID] = true
		}
	}
	for _, run := range w.c.Recorded(w) {
		if theirs[run.ID] {
			legs = append(legs, run)
		}
	}
	return legs
}

// resumed counts the legs of streams that had others before.
func (w *world) resumed() (further int) {
	begun := make(map[string]bool)
	for _, run := range w.c.Recorded(w) {
		if !run.Resumes {
			continue
		}
		if begun[run.ID] {
			further++
		}
		begun[run.ID] = true
	}
	return further
}

// mapsSince are the committed maps from an epoch on.
func (w *world) mapsSince(epoch uint64) []cluster.Map {
	maps := w.c.Maps()
	for len(maps) > 1 && maps[0].Epoch < epoch {
		maps = maps[1:]
	}
	return maps
}

// moved is how many shards changed hands from map to map.
func moved(maps []cluster.Map) int {
	n := 0
	for i := 1; i < len(maps); i++ {
		n += len(maps[i-1].Moves(maps[i]))
	}
	return n
}

// longest is how long a request waited for its answer, among those that an app
// answers at once.
func longest(answers []history.Response) time.Duration {
	var most int64
	for i := range answers {
		if a := &answers[i]; a.Register != "" && a.OK() {
			most = max(most, a.Done()-a.Sent())
		}
	}
	return time.Duration(most)
}
