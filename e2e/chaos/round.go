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

// names are the names of faults that came together.
func names(fs []fault) string {
	var all []string
	for _, f := range fs {
		all = append(all, f.name())
	}
	return strings.Join(all, " + ")
}

// round has one fault, or some at once, under load, and judges what came of it.
func (w *world) round(number int, fs []fault) *Round {
	w.number, w.rng = number, rand.New(rand.NewPCG(w.o.Seed, uint64(number)+1)) //nolint:gosec // to be replayed
	w.span = time.Duration(1000+w.rng.IntN(1500)) * time.Millisecond
	w.paired, w.victims, w.failing, w.began = len(fs) > 1, nil, nil, history.Now()
	w.note("round %d: %s", number, names(fs))
	w.leading = w.c.LeaderOf(w, w.members...)
	w.note("%s leads", w.leading.ID)
	w.first = w.c.AwaitShards(w, w.members...)
	held := w.heldBy()
	if w.o.Caches {
		w.emptyCaches()
		w.stale = watchStaleReturns(append(slices.Clone(w.members), w.spare))
		defer w.stale.take() // also if the round breaks off
	}
	w.traffic.begin()
	w.traffic.flow(w, 500*time.Millisecond)
	for _, f := range fs {
		w.note("begins: %s", f.name())
		f.begin(w)
	}
	for _, f := range fs {
		if busy, ok := f.(worker); ok {
			busy.during(w)
		} else {
			w.flow()
		}
	}
	for _, f := range fs {
		w.note("ends: %s", f.name())
		f.end(w)
	}
	w.recover()
	if len(w.failing) > 0 {
		w.flow() // one of them may have been about to end
		w.recover()
		for _, n := range w.failing {
			w.traffic.allowRetry(n)
		}
	}
	w.healed()
	w.traffic.flow(w, 300*time.Millisecond)
	w.following.goOn()
	answers := w.traffic.end()
	w.note("all answers are there")
	r := w.judge(answers, w.first.Epoch)
	r.Number, r.Faults, r.Held = number, names(fs), w.heldSince(held)
	return r
}

// heldBy counts the held requests of each node.
func (w *world) heldBy() map[*cluster.Node]float64 {
	counts := make(map[*cluster.Node]float64)
	for _, n := range w.c.Running() {
		if m, err := n.Metrics(w.Context()); err == nil {
			counts[n] = m.Sum("shardway_queued_requests_total")
		}
	}
	return counts
}

// heldSince is how many more there are. What a node counted before its death is
// not.
func (w *world) heldSince(before map[*cluster.Node]float64) int {
	sum := 0.0
	for n, count := range w.heldBy() {
		if count < before[n] {
			before[n] = 0 // it was started again
		}
		sum += count - before[n]
	}
	return int(sum)
}
