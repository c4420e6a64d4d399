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
	// reportWithin is how long failed releases are collected for one report. Without it, each failure
	// would be reported separately, because the results of the calls to the app arrive one by one.
	reportWithin = 200 * time.Millisecond
)

// releases records the results of the releases of shards by this node's app. A release fails if the app
// does not confirm in time that it has written the state of a shard that moves away.
type releases struct {
	// Only the goroutine of agent.run uses the following fields. ended contains the releases that have
	// ended since the last poll, and unreported the failed releases that reportReleases has not
	// reported yet. reportBy is the time of the node's clock at which it reports them.
	ended, unreported []ackagent.ReleaseEnd
	reportBy          time.Duration

	// mu protects the following fields.
	mu sync.Mutex
	// failed contains the shards that moved without a release within the last agent.UnreleasedMoveWindow.
	failed map[shardmap.Shard]failedRelease
	// drained contains the shards that moved without a release since the last drain of this node began,
	// with the error of each.
	drained map[shardmap.Shard]string
	leaving bool // this node drains or stops
}

// failedRelease is the end of a release that failed.
type failedRelease struct {
	at     time.Duration // time of the node's clock
	reason string        // error of the last attempt
}

// setLeaving records whether the node drains or stops. It clears drained when a drain begins.
func (r *releases) setLeaving(leaves bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if leaves && !r.leaving {
		r.drained = nil
	}
	r.leaving = leaves
}

// recordEnded records the releases in ended, calls count for each of them, and clears ended. It does not record
// a successful release, and a release of a shard that a safe drain keeps on this node.
func (r *releases) recordEnded(now time.Duration, count func(ackagent.ReleaseResult)) {
	if len(r.ended) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.ended {
		count(e.Result)
		if e.Result == ackagent.ReleaseOK || e.Kept {
			continue
		}
		e.Reason = logsafe.OneLine(e.Reason)
		if len(r.unreported) == 0 {
			r.reportBy = now + reportWithin
		}
		r.unreported = append(r.unreported, e)
		put(&r.failed, e.Shard, failedRelease{at: now, reason: e.Reason})
		if r.leaving {
			put(&r.drained, e.Shard, e.Reason)
		}
	}
	r.ended = r.ended[:0]
}

// put stores v in a map that may be nil.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// recentFailures returns the number of shards that moved without a release within the last agent.UnreleasedMoveWindow,
// and the error of the shard with the lowest number.
func (r *releases) recentFailures(now time.Duration) (n int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.failed, func(_ shardmap.Shard, f failedRelease) bool { return now-f.at >= ackagent.UnreleasedMoveWindow })
	if len(r.failed) == 0 {
		return 0, ""
	}
	return len(r.failed), r.failed[slices.Min(slices.Collect(maps.Keys(r.failed)))].reason
}

// drainFailures returns the number of shards that moved without a release since the last drain of this node
// began, and the error of the shard with the lowest number.
func (r *releases) drainFailures() (n int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.drained) == 0 {
		return 0, ""
	}
	return len(r.drained), r.drained[slices.Min(slices.Collect(maps.Keys(r.drained)))]
}

// onReleaseEnded records that a release has ended. protocol calls it (as HookOptions.Ended) during a poll.
func (a *agent) onReleaseEnded(e ackagent.ReleaseEnd) { a.releases.ended = append(a.releases.ended, e) }

// pollReleases records and counts the releases that ended during this poll. It reports the failed ones
// after reportWithin, or now if the agent has stopped. It returns the time until its next call.
func (a *agent) pollReleases(now time.Duration) (again time.Duration) {
	r := &a.releases
	r.recordEnded(now, func(result ackagent.ReleaseResult) { a.metrics.releases.WithLabelValues(result.String()).Inc() })
	switch {
	case len(r.unreported) == 0:
		return time.Hour
	case now < r.reportBy && !a.protocol.Stopped():
		return r.reportBy - now
	}
	a.reportReleases()
	return time.Hour
}

// reportReleases logs the failed releases that were not reported yet, and records one event for all of
// them.
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
	a.log.Warn().Str("shards", shardmap.FormatShards(shards)).Str("result", first.Result.String()).Str("why", first.Reason).Msg("shards moved without release")
	if a.recordEvent == nil {
		return
	}
	e := event.Event{Kind: event.NotReleased, Node: string(a.self), Reason: first.Reason, Unreleased: &event.Unreleased{Count: len(shards)}}
	for _, s := range shards[:min(len(shards), maxShownShards)] {
		e.Unreleased.Shards = append(e.Unreleased.Shards, uint32(s))
	}
	a.recordEvent(e)
}

// keptShards describes the shards that a safe drain keeps on this node because the app has not released them.
type keptShards struct {
	shards int    // number of shards
	reason string // error of the first shard
}

// keptShardsOf returns the shards that a safe drain keeps on this node. nil means that there are none.
func keptShardsOf(m *ackagent.Agent) *keptShards {
	n, why := m.KeptShards()
	if n == 0 {
		return nil
	}
	return &keptShards{n, logsafe.OneLine(why)}
}

// whyKept returns why a safe drain keeps all remaining shards on this node. shards is the number of the
// remaining shards. The result is empty if some of them can still move.
func (a *agent) whyKept(shards int) string {
	if k := a.keptByDrain.Load(); k != nil && k.shards >= shards {
		return "the app has not released them (" + k.reason + "); repair the app and drain again, or drain without --safe"
	}
	return ""
}
