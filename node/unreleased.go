package node

import (
	"maps"
	"slices"
	"sync"
	"time"

	ackagent "shardway/ack/agent"
	"shardway/event"
	"shardway/internal/logsafe"
	"shardway/shardmap"
)

const (
	// maxShownShards is how many shards an event of a failed release lists.
	maxShownShards = 32
	// reportWithin is how long failed releases are collected for one report: the results of
	// their calls come one by one.
	reportWithin = 200 * time.Millisecond
)

// releases records how the releases of this node's app ended.
type releases struct {
	// The agent's goroutine owns the following fields. fresh are the ends since the last look,
	// unreported those of failed releases, and reportBy when these are reported.
	fresh, unreported []ackagent.ReleaseEnd
	reportBy          time.Duration

	mu sync.Mutex
	// failed has the shards that moved unreleased within the last agent.NotReleasedFor.
	failed map[shardmap.Shard]failedRelease
	// drained has those since the node was last asked to own nothing, and why.
	drained map[shardmap.Shard]string
	leaves  bool
}

// failedRelease is the end of a release that failed.
type failedRelease struct {
	at  time.Duration // by the node's clock
	why string
}

// lookLeaving begins a new record when the node is asked to own nothing.
func (r *releases) lookLeaving(leaves bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if leaves && !r.leaves {
		r.drained = nil
	}
	r.leaves = leaves
}

// take records and counts what ended since the last look.
func (r *releases) take(now time.Duration, count func(ackagent.ReleaseResult)) {
	if len(r.fresh) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.fresh {
		count(e.Result)
		if e.Result == ackagent.ReleaseOK || e.Kept {
			continue
		}
		e.Why = logsafe.OneLine(e.Why)
		if len(r.unreported) == 0 {
			r.reportBy = now + reportWithin
		}
		r.unreported = append(r.unreported, e)
		put(&r.failed, e.Shard, failedRelease{at: now, why: e.Why})
		if r.leaves {
			put(&r.drained, e.Shard, e.Why)
		}
	}
	r.fresh = r.fresh[:0]
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// lately returns how many shards moved unreleased within the last agent.NotReleasedFor, and
// why the first of them did.
func (r *releases) lately(now time.Duration) (n int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.failed, func(_ shardmap.Shard, f failedRelease) bool { return now-f.at >= ackagent.NotReleasedFor })
	if len(r.failed) == 0 {
		return 0, ""
	}
	return len(r.failed), r.failed[slices.Min(slices.Collect(maps.Keys(r.failed)))].why
}

// inDrain returns how many shards moved unreleased since the node was asked to own nothing,
// and why the first of them did.
func (r *releases) inDrain() (n int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.drained) == 0 {
		return 0, ""
	}
	return len(r.drained), r.drained[slices.Min(slices.Collect(maps.Keys(r.drained)))]
}

// released takes the end of a release, from within a look.
func (a *agent) released(e ackagent.ReleaseEnd) { a.releases.fresh = append(a.releases.fresh, e) }

// lookReleases records and counts the releases that ended in the last look, and reports
// those that failed once they are all known. It returns within what time it is due again.
func (a *agent) lookReleases(now time.Duration) (again time.Duration) {
	r := &a.releases
	r.take(now, func(result ackagent.ReleaseResult) { a.metrics.releases.WithLabelValues(result.String()).Inc() })
	switch {
	case len(r.unreported) == 0:
		return time.Hour
	case now < r.reportBy && !a.machine.Stopped():
		return r.reportBy - now
	}
	a.reportReleases()
	return time.Hour
}

// reportReleases logs failed releases and adds an event.
func (a *agent) reportReleases() {
	failed := a.releases.unreported
	if len(failed) == 0 {
		return
	}
	a.releases.unreported = nil
	slices.SortFunc(failed, func(x, y ackagent.ReleaseEnd) int { return int(x.Shard) - int(y.Shard) })
	var shards []shardmap.Shard
	for _, e := range failed {
		shards = append(shards, e.Shard)
	}
	first := failed[0]
	a.log.Warn().Str("shards", named(shards)).Str("result", first.Result.String()).Str("why", first.Why).Msg("shards moved without release")
	if a.record == nil {
		return
	}
	e := event.Event{Kind: event.NotReleased, Node: string(a.self), Reason: first.Why, Unreleased: &event.Unreleased{Count: len(shards)}}
	for _, s := range shards[:min(len(shards), maxShownShards)] {
		e.Unreleased.Shards = append(e.Unreleased.Shards, uint32(s))
	}
	a.record(e)
}

// kept is a number of shards that a safe drain leaves at this node.
type kept struct {
	shards int
	why    string // the first of them was not released
}

func keptHere(m *ackagent.Agent) *kept {
	n, why := m.KeptShards()
	if n == 0 {
		return nil
	}
	return &kept{n, logsafe.OneLine(why)}
}

// keptStays returns why all shards that are left stay, by a safe drain; empty: not all do.
func (a *agent) keptStays(shards int) string {
	if k := a.keptByDrain.Load(); k != nil && k.shards >= shards {
		return "the app has not released them (" + k.why + "); repair the app and drain again, or drain without --safe"
	}
	return ""
}
