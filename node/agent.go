package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/event"
	"shardway/internal/clock"
	"shardway/proxy"
	"shardway/shardmap"
)

// agent runs a node's own side of the protocol in one goroutine: it has an ack.Agent
// decide, and is the gate of requests that this decides about.
type agent struct {
	self          shardmap.NodeID
	clock         clock.Clock
	timer         *clock.Beat // asked for; a jump of more than a quarter lease between two looks voids it
	busyTimer     *clock.Beat // while the process is busy, and may come late
	log           zerolog.Logger
	weight        uint32
	returnsWithin time.Duration // within what time it is back after its goodbye; zero: it is not
	router        *router
	proxy         *proxy.Server
	healthy       func() bool
	app           func() ack.AppHealth
	keys          func() uint64 // the digest of the key configuration that is loaded
	known         func() bool   // false until the app was checked once
	// appWatch watches for restarts of the app; nil means that they do not matter.
	appWatch        *appWatch
	fail            func(error)
	metrics         *metrics
	changes         *changes
	transmit        func(ack.Heartbeat) // to the leader; it puts it down
	trips           trips
	missingMapSince atomic.Int64    // since when the leader has spoken of a map that is not here, by the clock; zero: it has not
	stateChanged    <-chan struct{} // hint: the log has a newer state
	newest          func() *ack.State
	answers         chan ack.Answer   // unbuffered; link gives up with ctx
	ownAnswers      <-chan ack.Answer // of this node's own leadership
	wake            chan struct{}     // hint: beat at once
	beatIfNearlyDue chan struct{}     // hint: beat if that is nearly due
	beatWithVoters  chan struct{}     // hint: beat with other voters, see leading.echo
	machine         *ack.Agent
	hooking         *hooking                         // nil: the app is not told what it holds
	calls           chan func()                      // unbuffered: to be done by run, which tells by ended that it does none any more
	ended           chan struct{}                    // latch
	receivedAt      map[shardmap.Shard]time.Duration // when each shard came that was ever this node's, by the clock

	givenUp     givenUp
	leaving     atomic.Bool // this node wants to own nothing
	goodbye     atomic.Bool // it is to admit and run nothing any more, and to say so
	stopped     atomic.Bool // it admits and runs nothing any more
	boot        atomic.Uint64
	keepsShards atomic.Bool // nobody is left to take its shards
	// elsewhere is the other process with this node's id because of which the leader
	// refuses this one's heartbeats; nil: it does not.
	duplicateAddr atomic.Pointer[string]
	lastAnswer    atomic.Int64 // when an answer last counted, by the clock
	acked         atomic.Uint64
	lastAtStart   atomic.Uint64 // index of the last entry of the log as this process found it
	upToDate      atomic.Bool   // the leader has said that it has the last map proposed: its log is not far behind
	duplicate     chan string   // cap 1: told once
	refusalLogged bool          // because of elsewhere; that was said
	overdue       overdue
	turns         turns
	failing       failing
	releases      releases
	keptByDrain   atomic.Pointer[kept] // what a safe drain leaves here; nil: nothing
	record        func(event.Event)    // nil: events are not kept
	suspicion     *leaderSuspicion     // set once Raft is open; nil: it is not
	orphans       orphanedForwards
	// stood is the last pause of the process that cost a lease or was longer than half of one;
	// nil: there was none.
	lastPause atomic.Pointer[processPause]
	// pause is a pause that may yet cost the lease.
	pause pause
}

// stood is a time in which the process stood still, or by which its clock jumped.
type processPause struct{ at, lasted time.Duration }

var _ ack.Gate = (*agent)(nil)

// earlyMost bounds by how much a heartbeat comes early with those of others.
const maxEarlyHeartbeat = 50 * time.Millisecond

// run returns when ctx ends.
func (a *agent) run(ctx context.Context) {
	defer a.timer.Stop()
	defer a.busyTimer.Stop()
	defer close(a.ended)
	var results <-chan ack.HookResult
	var told <-chan struct{}
	if h := a.hooking; h != nil {
		h.ctx, results, told = ctx, h.results, h.told
		defer a.endHooks(ctx)
	}
	if a.suspicion != nil {
		a.suspicion.ctx = ctx
	}
	a.timer.Within(0)
	for {
		var now time.Duration // of this turn, once it has begun
		select {
		case <-ctx.Done():
			a.router.setLease(0)
			a.reportReleases()
			return
		case <-a.timer.C:
			// It may come a little early, and would not come again within EveryBeat.
			now = a.beginTurn()
			a.machine.HeartbeatEarly(now, clock.EveryBeat/2)
		case <-a.busyTimer.C:
		case <-a.stateChanged:
		case <-a.router.running.zero:
		case <-a.wake:
			a.machine.HeartbeatNow()
		case <-a.beatWithVoters:
			a.machine.HeartbeatWith()
		case <-a.beatIfNearlyDue:
			now = a.beginTurn()
			a.machine.HeartbeatEarly(now, maxEarlyHeartbeat)
		case ans := <-a.answers:
			now = a.beginTurn()
			a.answer(now, ans)
		case ans := <-a.ownAnswers:
			now = a.beginTurn()
			a.answer(now, ans)
		case r := <-results:
			a.hooking.ended(r.Seq)
			a.failing.stale = true
			a.machine.HookEnded(r)
		case f := <-a.calls:
			f()
		case <-told:
			a.hooking.each(a.machine.NotAcquired)
		}
		if now == 0 {
			now = a.beginTurn()
		}
		a.timer.Within(a.poll(now)) //nolint:contextcheck // what its doubts ask others ends with this run
	}
}

// endHooks waits for the calls to the app, which end with ctx. Nobody can end a function
// of this process.
func (a *agent) endHooks(ctx context.Context) {
	a.overdue.outlast(ctx, a.machine.Timing().DeadAfter, "hooks", a.hooking.calls.Wait)
}

// turn begins a turn of the machine, and returns the time.
func (a *agent) beginTurn() time.Duration {
	now := a.clock.Precise()
	switch gap, ran := a.turns.next(now); {
	case ran:
		a.machine.RanUntil(now)
	case gap > a.machine.Timing().Lease/4:
		if a.pause.began(now, gap, a.machine.Timing().Lease, a.router.leaseEnd()) {
			a.lastPause.Store(&processPause{now, gap})
		}
	}
	return now
}

// look has the machine look at everything that may have changed, and returns within what
// time it has to again.
func (a *agent) poll(now time.Duration) (again time.Duration) {
	s := ack.Observation{
		State: a.newest(), Unready: !a.known(), Unhealthy: !a.healthy(), App: a.app(), Leaving: a.leaving.Load(), Stopping: a.goodbye.Load(), ReturnsWithin: a.returnsWithin, Weight: a.weight, HasRequests: a.router.hadRequests.Swap(false), Keys: a.keysDigest(),
	}
	a.appWatch.report(&s)
	a.machine.Poll(now, s)
	a.appWatch.applied(s.State, a.machine.LeaseRemaining(now) > 0)
	if gap, lost := a.pause.look(now, a.machine.LeaseRemaining(now) > 0); lost {
		a.lastPause.Store(&processPause{now, gap})
	}
	acked := a.machine.Acked()
	a.acked.Store(uint64(acked))
	a.changes.acknowledged(acked, now)
	if fresh := a.failing.look(a.machine.HeldShards); len(fresh) > 0 {
		a.log.Warn().Str("shards", named(fresh)).Str("why", a.failing.why(fresh[0])).Msg("acquire hook failed, will retry")
	}
	report := a.lookReleases(now)
	a.keptByDrain.Store(keptHere(a.machine))
	a.stopped.Store(a.machine.Stopped())
	a.boot.Store(a.machine.Boot())
	a.overdue.look(now, a.machine.Timing().DeadAfter, a.machine.LeaseRemaining(now) > 0, a.router.running, a.hooking.count())
	if a.suspicion != nil {
		a.suspicion.poll(now)
	}
	if a.overdue.cut != 0 {
		return 0
	}
	return min(a.machine.Due(now)-now, report)
}

// keysDigest returns the digest of the key configuration that is loaded; zero: none is.
func (a *agent) keysDigest() uint64 {
	if a.keys == nil {
		return 0
	}
	return a.keys()
}

// Lease lets the request path see the lease.
func (a *agent) Lease(until time.Duration) (missed bool) {
	a.router.abortAt.Store(int64(a.machine.CutBy())) // first: what is admitted by the lease asks for it
	last, now := a.router.setLease(until)
	if until == last {
		return false // it was not renewed
	}
	switch {
	case until != 0 && last == 0:
		a.log.Info().Msg("lease granted")
	case until == 0 && last != 0 && !a.goodbye.Load():
		a.metrics.lapses.Inc()
		a.log.Warn().Msg("lease expired")
	}
	// Renewed a moment too late: it was out, though never here.
	return max(now, a.clock.Now()) >= last
}

// Route swaps the table.
func (a *agent) Route(r ack.Routing) {
	old, s := a.router.state.Load(), r.State()
	a.failing.stale = true
	a.releases.lookLeaving(a.leaving.Load() || s.Policy().Leaves(a.self))
	if s.Last().Epoch() != old.Last().Epoch() {
		a.proxy.RenewTo(newlyExcluded(old, s))
	}
	a.proxy.Wake(a.router.swap(r))
	a.changes.routed(old, s, a.clock.Precise())
	if s.Committed().Epoch() != old.Committed().Epoch() {
		a.committed(old.Committed(), s)
	}
	if s.Level() != old.Level() {
		a.log.Info().Uint8("format_version", uint8(s.Level())).Msg("format version in force")
	}
	if s.TimingSince() != old.TimingSince() {
		a.log.Info().Str("timing", describe(s.Timing())).Uint64("index", s.TimingSince()).Msg("timing in force")
	}
	a.orphans.abortIfCaughtUp(s.Last().Epoch(), orphanedIn(s, a.lastAtStart.Load()))
	if s.Last().Epoch() != old.Last().Epoch() && s.Open() {
		a.givenUp.holds(s, a.self, a.router.running.of)
		a.log.Debug().Uint64("epoch", uint64(s.Last().Epoch())).Msg("map proposed")
	}
}

// committed logs the new map.
func (a *agent) committed(old *shardmap.Map, s *ack.State) {
	m := s.Committed()
	gained, lost := 0, 0
	for _, mv := range shardmap.Diff(old, m) {
		switch a.self {
		case mv.To:
			gained++
			a.receivedAt[mv.Shard] = a.clock.Precise()
		case mv.From:
			lost++
			if stage := a.givenUp.moved(mv.Shard); uint64(m.Epoch()) > a.lastAtStart.Load() {
				a.metrics.moved.WithLabelValues(stage).Inc()
			}
		}
	}
	if uint64(m.Epoch()) <= a.lastAtStart.Load() {
		a.log.Info().Uint64("epoch", uint64(m.Epoch())).Int("owned", m.Count(a.self)).Msg("previous map read from log")
	} else {
		a.log.Info().Uint64("epoch", uint64(m.Epoch())).Int("owned", m.Count(a.self)).Int("gained", gained).Int("lost", lost).Msg("map committed")
	}
	a.metrics.mapsCommitted.Inc()
	a.orphans.checkPending = true
}

// Running counts what runs on the local app.
func (a *agent) Running(may func(shardmap.Shard) bool) int { return a.router.running.await(may) }

// Cut cuts what runs on the local app.
func (a *agent) Cut(why ack.CutReason, may func(shardmap.Shard) bool) {
	switch why {
	case ack.CutDraining:
		a.givenUp.cuts(may, a.router.running.of)
		n := a.proxy.Cut(func(s shardmap.Shard) bool { return !may(s) }, why.String())
		a.log.Warn().Uint64("epoch", uint64(a.router.state.Load().Last().Epoch())).Int("requests", n).Msg("requests aborted after drain timeout")
	case ack.CutLeaseLost:
		n := a.proxy.CutUpstream(why.String())
		a.overdue.cutAt(a.clock.Precise())
		a.log.Warn().Int("requests", n).Msg("requests aborted, lease not renewed")
	case ack.CutNewBoot:
		a.proxy.CutUpstream(why.String())
	case ack.CutGoodbye:
		a.proxy.CutParting(why.String())
	}
}

// answer takes an answer of the leader.
func (a *agent) answer(now time.Duration, ans ack.Answer) {
	switch a.machine.Answered(now, ans) {
	case ack.AnswerIgnored:
	case ack.AnswerCounted:
		a.refusalLogged = false
		a.duplicateAddr.Store(nil)
		a.lastAnswer.Store(int64(now))
		a.heardOf(ans.Epoch, now)
		if d, ok := a.trips.back(ans.Beat, now); ok {
			a.metrics.beats.Observe(d.Seconds())
		}
		a.orphans.observeEpoch(ans.Epoch)
		s := a.router.state.Load()
		a.orphans.abortIfCaughtUp(s.Last().Epoch(), orphanedIn(s, a.lastAtStart.Load()))
		a.keepsShards.Store(a.machine.MapStays())
		if current := a.machine.UpToDate(); current && !a.upToDate.Swap(current) {
			a.changes.caughtUp(a.router.state.Load())
		}
	case ack.BootSuperseded:
		a.log.Warn().Uint64("boot", a.machine.Boot()).Uint64("known", ans.Known).Msg("boot number superseded, using higher one")
	case ack.DiskRolledBack:
		a.fail(&staleDiskError{why: rollbackError(ans)})
	case ack.DuplicateNode:
		a.onDuplicate(ans.Elsewhere)
	case ack.DuplicatePersists:
		a.onDuplicate(ans.Elsewhere)
		select {
		case a.duplicate <- ans.Elsewhere:
		default:
		}
	}
}

// refuse notes that another process has this node's id.
func (a *agent) onDuplicate(elsewhere string) {
	a.duplicateAddr.Store(&elsewhere)
	if !a.refusalLogged {
		a.refusalLogged = true
		a.log.Warn().Str("addr", elsewhere).Msg("heartbeat refused, node ID in use")
	}
}
