package node

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"shardway/ack"
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
	// Only the goroutine of agent.run uses the following fields.
	endedReleases []ackagent.ReleaseEnd // releases that have ended since the last poll
	unreported    []ackagent.ReleaseEnd // failed releases that reportReleases has not reported yet
	reportAt      time.Duration         // time of the node's clock at which it must report them

	// mu protects the following fields.
	mu sync.Mutex
	// recentlyFailed contains the shards that moved without a release within the last
	// ackagent.UnreleasedMoveWindow.
	recentlyFailed map[shardmap.Shard]failedRelease
	// failedInDrain contains the error of each shard that moved without a release since the last drain of this
	// node began.
	failedInDrain map[shardmap.Shard]string
	isDraining    bool // this node drains or stops
}

// failedRelease is the end of a release that failed.
type failedRelease struct {
	endedAt time.Duration // time of the node's clock
	reason  string        // error of the last attempt
}

// setDraining records whether the node drains or stops. When a drain begins, it clears the failures of the
// previous drain.
func (r *releases) setDraining(isDraining bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if isDraining && !r.isDraining {
		r.failedInDrain = nil
	}
	r.isDraining = isDraining
}

// recordEnded counts the releases that have ended since its previous call, and records those that failed. A
// failed release does not matter if a safe drain keeps the shard on this node.
func (r *releases) recordEnded(now time.Duration, count func(ackagent.ReleaseResult)) {
	if len(r.endedReleases) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, release := range r.endedReleases {
		count(release.Result)
		if release.Result == ackagent.ReleaseOK || release.Kept {
			continue
		}
		release.Reason = logsafe.OneLine(release.Reason)
		r.recordFailedLocked(now, release)
	}
	r.endedReleases = r.endedReleases[:0]
}

// recordFailedLocked records a release that failed. mu must be held.
func (r *releases) recordFailedLocked(now time.Duration, release ackagent.ReleaseEnd) {
	if len(r.unreported) == 0 {
		r.reportAt = now + reportWithin
	}
	r.unreported = append(r.unreported, release)
	if r.recentlyFailed == nil {
		r.recentlyFailed = map[shardmap.Shard]failedRelease{}
	}
	r.recentlyFailed[release.Shard] = failedRelease{endedAt: now, reason: release.Reason}
	if !r.isDraining {
		return
	}
	if r.failedInDrain == nil {
		r.failedInDrain = map[shardmap.Shard]string{}
	}
	r.failedInDrain[release.Shard] = release.Reason
}

// recentFailures returns the number of shards that moved without a release within the last
// ackagent.UnreleasedMoveWindow, and the error of the shard with the lowest number.
func (r *releases) recentFailures(now time.Duration) (count int, firstError string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.recentlyFailed, func(_ shardmap.Shard, f failedRelease) bool {
		return now-f.endedAt >= ackagent.UnreleasedMoveWindow
	})
	if len(r.recentlyFailed) == 0 {
		return 0, ""
	}
	return len(r.recentlyFailed), r.recentlyFailed[lowestShard(r.recentlyFailed)].reason
}

// drainFailures returns the number of shards that moved without a release since the last drain of this node
// began, and the error of the shard with the lowest number.
func (r *releases) drainFailures() (count int, firstError string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failedInDrain) == 0 {
		return 0, ""
	}
	return len(r.failedInDrain), r.failedInDrain[lowestShard(r.failedInDrain)]
}

// lowestShard returns the lowest key of a map, which must not be empty.
func lowestShard[V any](m map[shardmap.Shard]V) shardmap.Shard {
	return slices.Min(slices.Collect(maps.Keys(m)))
}

// onReleaseEnded records that a release has ended. protocol calls it (as HookOptions.ReleaseEnded) during a
// poll.
func (a *agent) onReleaseEnded(release ackagent.ReleaseEnd) {
	a.releases.endedReleases = append(a.releases.endedReleases, release)
}

// pollReleases records and counts the releases that ended during this poll. It reports the failed ones
// after reportWithin, or now if the agent has stopped. It returns the time until it must be called again.
func (a *agent) pollReleases(now time.Duration) (untilNext time.Duration) {
	const nothingToReport = time.Hour
	r := &a.releases
	r.recordEnded(now, func(result ackagent.ReleaseResult) { a.metrics.Releases.WithLabelValues(result.String()).Inc() })
	if len(r.unreported) == 0 {
		return nothingToReport
	}
	if now < r.reportAt && !a.protocol.Stopped() {
		return r.reportAt - now
	}
	a.reportReleases()
	return nothingToReport
}

// reportReleases logs the failed releases that were not reported yet, and records one event for all of
// them.
func (a *agent) reportReleases() {
	failed := a.releases.unreported
	if len(failed) == 0 {
		return
	}
	a.releases.unreported = nil
	slices.SortFunc(failed, func(x, y ackagent.ReleaseEnd) int { return cmp.Compare(x.Shard, y.Shard) })
	for len(failed) > 0 {
		service, length := sameService(a.router.State(), failed)
		a.reportReleasesOf(service, failed[:length])
		failed = failed[length:]
	}
}

// sameService returns the service of the first release, and how many releases at the beginning are of that service. They
// are ascending by shard. The zero value of the service means that the cluster has no list of services, or that the shard
// is outside of all ranges.
func sameService(state *ack.State, failed []ackagent.ReleaseEnd) (service ack.Service, length int) {
	if !state.HasServices() {
		return ack.Service{}, len(failed)
	}
	service, _ = state.ServiceOf(failed[0].Shard)
	for length < len(failed) {
		if other, _ := state.ServiceOf(failed[length].Shard); other != service {
			break
		}
		length++
	}
	return service, length
}

// reportReleasesOf logs the failed releases of shards of a service, and records one event for all of them. The zero value
// of service means that the cluster has no list of services.
func (a *agent) reportReleasesOf(service ack.Service, failed []ackagent.ReleaseEnd) {
	var shards []shardmap.Shard
	for _, release := range failed {
		shards = append(shards, release.Shard-service.First)
	}
	first := failed[0]
	a.log.Warn().Func(logService(service.Name)).Str("shards", shardmap.FormatShards(shards)).Str("result", first.Result.String()).Str("reason", first.Reason).Msg("shards moved without release")
	if a.recordEvent == nil {
		return
	}
	unreleased := &event.Unreleased{Count: len(shards), Service: service.Name}
	for _, number := range shards[:min(len(shards), maxShownShards)] {
		unreleased.Shards = append(unreleased.Shards, uint32(number+service.First))
		if service.Name != "" {
			unreleased.ServiceShards = append(unreleased.ServiceShards, uint32(number))
		}
	}
	a.recordEvent(event.Event{Kind: event.NotReleased, Node: string(a.self), Reason: first.Reason, Unreleased: unreleased})
}

// keptShards describes the shards that a safe drain keeps on this node because the app has not released them.
type keptShards struct {
	count      int
	firstError string // error of the first of these shards
}

// keptShardsOf returns the shards that a safe drain keeps on this node, or nil if there are none.
func keptShardsOf(protocol *ackagent.Agent) *keptShards {
	count, firstError := protocol.KeptShards()
	if count == 0 {
		return nil
	}
	return &keptShards{count, logsafe.OneLine(firstError)}
}
