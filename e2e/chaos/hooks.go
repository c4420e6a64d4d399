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

// badHooks has an app acquire badly and another one release badly, while a drain moves
// shards to the one and away from the other: nothing may fail.
type badHooks struct{ to, from *cluster.Node }

func (*badHooks) name() string { return "bad hooks" }

// alone: a drain beside other faults may be refused, and waits for what they stop.
func (*badHooks) alone() {}

func (f *badHooks) begin(w *world) {
	f.from = w.pick(anybody)
	f.to = w.pick(anybody)
	for f.to == f.from {
		f.to = w.members[w.rng.IntN(len(w.members))]
	}
	ills := []string{"slow:200ms", "500", "huge", "garbage", "gone", "hang", "twice", "unable"}
	acquire := ills[w.rng.IntN(len(ills))]
	ills = append(ills, "absent")
	release := ills[w.rng.IntN(len(ills))]
	w.note("%s acquires with %s, %s releases with %s and is drained", f.to.ID, acquire, f.from.ID, release)
	f.to.App.Sicken(w, "acquire", acquire)
	f.from.App.Sicken(w, "release", release)
	w.drain(f.from)
}

// during waits until the bad release has let the shards go, and a bad acquire has some.
func (f *badHooks) during(w *world) {
	w.awaitEmpty(f.from)
	w.traffic.flow(w, 500*time.Millisecond)
}

func (f *badHooks) end(w *world) {
	f.to.App.Sicken(w, "acquire", "well")
	f.from.App.Sicken(w, "release", "well")
	w.uncordon(f.from)
}

// counted judges what the apps kept by their hooks: each POST of a plain key raised its
// counter, once, wherever the shard was and whoever died, so no two have the same count
// and none a lower one than those that were answered before it began; and a GET read no
// less. What two nodes ran at once, for a reason that only epochs help against, may have
// been read from the older of them.
func (w *world) counted(answers []history.Response, h *history.Report) (wrong []string) {
	byKey := make(map[string][]history.Response)
	for _, a := range answers {
		if shard := uint32(load.ShardOf(a.Key, w.o.Shards)); a.OK() && a.Register == "" && h.Overlapped[shard] == 0 {
			byKey[a.Key] = append(byKey[a.Key], a)
		}
	}
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b history.Response) int { return int(a.Sent() - b.Sent()) })
		by := make(map[uint64]string)
		for i, a := range all {
			post := a.Method == "POST"
			if other := by[a.Count]; post && other != "" {
				wrong = append(wrong, fmt.Sprintf("%s: %s and %s were both counted as %d", key, other, a.ID, a.Count))
			}
			if post {
				by[a.Count] = a.ID
			}
			for _, before := range all[:i] {
				if before.Method == "POST" && before.Done() < a.Sent() && (a.Count < before.Count || post && a.Count == before.Count) {
					wrong = append(wrong, fmt.Sprintf("%s: %s has count %d, %v after %s had %d", key, a.ID, a.Count, time.Duration(a.Sent()-before.Done()), before.ID, before.Count))
				}
			}
		}
	}
	return wrong
}
