package node

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/ack/election"
	"shardway/admin/api"
	"shardway/event"
	"shardway/internal/chanutil"
	"shardway/internal/clock"
	"shardway/node/campaign"
	"shardway/node/eventlog"
	"shardway/node/heartbeat"
	"shardway/node/identity"
	"shardway/node/idleshards"
	"shardway/node/leaderloop"
	"shardway/node/router"
	"shardway/proxy"
	"shardway/shardmap"
)

// agent runs the node's side of the lease protocol in one goroutine, run. The leader grants this node a
// lease in its response to a heartbeat, and the node serves its shards only with a lease. The decisions are
// made by protocol, which is an ackagent.Agent. agent implements ackagent.Gate for it: it opens and closes
// the router for requests.
type agent struct {
	self            shardmap.NodeID
	clock           clock.Clock
	timer           *clock.Ticker // expires at the next deadline of protocol
	busyTimer       *clock.Ticker // ticks while the process is busy, in addition to timer, which may then be late
	log             zerolog.Logger
	weight          uint32
	restartWithin   time.Duration // announced time until the return after a goodbye; zero means no return
	router          *router.Router
	proxy           *proxy.Server
	appHealthy      func() bool
	appHealth       func() ack.AppHealth
	keyConfigDigest func() uint64 // digest of the loaded key configuration
	appChecked      func() bool   // false until the first health check of the app has ended
	// appWatch watches for restarts of the app; nil means that they do not matter.
	appWatch             *appWatch
	fail                 func(error)
	metrics              *metrics
	changes              *eventlog.MapChangeRecorder
	transmitHeartbeat    func(ack.Heartbeat) // sends a heartbeat to the leader; does not block
	roundTrips           heartbeat.RoundTrips
	missingMapSince      atomic.Int64    // time of the clock since which this node lacks a map that the leader reported; zero means none
	stateChanged         <-chan struct{} // notified when the log has a newer state
	newestState          func() *ack.State
	answers              chan ack.Answer   // unbuffered; heartbeat.Client stops sending when its ctx ends
	ownAnswers           <-chan ack.Answer // responses of the leader loop of this node
	heartbeatNow         chan struct{}     // notified to send a heartbeat now
	heartbeatIfNearlyDue chan struct{}     // notified to send a heartbeat if it is nearly due
	protocol             *ackagent.Agent
	hooks                *hookRunner                      // nil means that the app has no hooks
	calls                chan func()                      // unbuffered: functions that run calls, until ended is closed
	ended                chan struct{}                    // closed when run returns
	receivedAt           map[shardmap.Shard]time.Duration // time of the clock at which this node last became the owner of a shard

	moveStages       *idleshards.Stages
	leaving          atomic.Bool // this node must lose all shards
	goodbyeRequested atomic.Bool // this node must stop all requests and then send a goodbye, the last heartbeat before a planned stop
	stopped          atomic.Bool // this node admits and runs no more requests
	boot             atomic.Uint64
	keepsShards      atomic.Bool // no other node can own its shards
	// duplicateAddr is the address of another process with the same node ID. Because of it the leader
	// refuses the heartbeats of this node; nil means that the leader accepts them.
	duplicateAddr       atomic.Pointer[string]
	lastAnswer          atomic.Int64 // time of the clock of the last accepted response
	ackedEpoch          atomic.Uint64
	lastIndexAtStart    atomic.Uint64 // index of the last log entry at the start of this process
	upToDate            atomic.Bool   // this node has the newest proposed map of the leader, so its log is not far behind
	persistentDuplicate chan string   // cap 1: address of a duplicate that persists, sent once
	refusalLogged       bool          // the refusal because of duplicateAddr was logged
	overdue             overdueDetector
	pauseDetector       pauseDetector
	acquireFailures     acquireFailures
	releases            releases
	keptByDrain         atomic.Pointer[keptShards] // shards that a safe drain leaves on this node; nil means none
	recordEvent         func(event.Event)          // records an event; nil means that events are not recorded
	suspicion           *campaign.Suspicion        // nil until Raft has started
	orphanedForwards    orphanedForwards
	// lastPause is the last pause of the process that lost a lease or was longer than half a lease;
	// nil means none.
	lastPause atomic.Pointer[processPause]
	// pendingPause is a pause that may still cause the loss of the lease.
	pendingPause pendingPause
}

// processPause is a period in which the process did not run, or by which its clock jumped. at is the end.
type processPause struct{ at, lasted time.Duration }

var _ ackagent.Gate = (*agent)(nil)

// maxEarlyHeartbeat is how much earlier than due a heartbeat may be sent, together with a Raft heartbeat.
const maxEarlyHeartbeat = 50 * time.Millisecond

// run handles all inputs of the agent until ctx ends. Then it ends the lease and waits for hooks.
func (a *agent) run(ctx context.Context) {
	defer a.timer.Stop()
	defer a.busyTimer.Stop()
	defer close(a.ended)
	var results <-chan ackagent.HookResult
	var told <-chan struct{}
	if h := a.hooks; h != nil {
		h.ctx, results, told = ctx, h.results, h.notAcquiredChanged
		defer a.endHooks(ctx)
	}
	if a.suspicion != nil {
		a.suspicion.Start(ctx)
	}
	a.timer.TickWithin(0)
	for {
		var now time.Duration // zero until BeginTurn was called
		select {
		case <-ctx.Done():
			a.router.SetLease(0)
			a.reportReleases()
			return
		case <-a.timer.C:
			// The timer may fire slightly early, and would not fire again within clock.MinInterval.
			now = a.BeginTurn()
			a.protocol.AdvanceHeartbeat(now, clock.MinInterval/2)
		case <-a.busyTimer.C: // only poll
		case <-a.stateChanged: // poll reads the new state
		case <-a.router.InFlight.ReachedZero: // the last request of a shard has ended, so poll may acknowledge a proposal
		case <-a.heartbeatNow:
			a.protocol.HeartbeatNow()
		case <-a.heartbeatIfNearlyDue:
			now = a.BeginTurn()
			a.protocol.AdvanceHeartbeat(now, maxEarlyHeartbeat)
		case ans := <-a.answers:
			now = a.BeginTurn()
			a.handleAnswer(now, ans)
		case ans := <-a.ownAnswers:
			now = a.BeginTurn()
			a.handleAnswer(now, ans)
		case r := <-results:
			a.hooks.removeCall(r.Seq)
			a.acquireFailures.stale = true
			a.protocol.HookEnded(r)
		case f := <-a.calls:
			f()
		case <-told: // the app has reported that it does not hold a shard
			a.hooks.takeNotAcquired(a.protocol.ShardNotAcquired)
		}
		if now == 0 {
			now = a.BeginTurn()
		}
		a.timer.TickWithin(a.poll(now)) //nolint:contextcheck // the requests of suspicion end with run
	}
}

// endHooks waits for the running hooks, which must end with ctx. A hook that is a function of this
// process cannot be stopped from outside, so overdue reports a hook that does not return.
func (a *agent) endHooks(ctx context.Context) {
	a.overdue.waitFor(ctx, a.protocol.Timing().DeadAfter, "hooks", a.hooks.calls.Wait)
}

// BeginTurn returns the time, and informs protocol if the process has run without a pause until now. The
// caller must call it before each input of protocol. After a gap of more than a quarter of the lease,
// protocol considers the lease as lost, unless the process is known to have run during the gap.
func (a *agent) BeginTurn() time.Duration {
	now := a.clock.Precise()
	switch gap, ran := a.pauseDetector.next(now); {
	case ran:
		a.protocol.MarkRunning(now)
	case gap > a.protocol.Timing().Lease/4:
		if a.pendingPause.begin(now, gap, a.protocol.Timing().Lease, a.router.LeaseEnd()) {
			a.lastPause.Store(&processPause{now, gap})
		}
	}
	return now
}

// poll passes everything that may have changed to protocol, and returns the time until the next
// call.
func (a *agent) poll(now time.Duration) (next time.Duration) {
	s := ackagent.Observation{
		State: a.newestState(), AppUnchecked: !a.appChecked(), Unhealthy: !a.appHealthy(), App: a.appHealth(), Leaving: a.leaving.Load(), Stopping: a.goodbyeRequested.Load(), RestartWithin: a.restartWithin, Weight: a.weight, HasRequests: a.router.HadRequests(), KeyConfigDigest: a.keysDigest(),
	}
	a.appWatch.addTo(&s)
	a.protocol.Poll(now, s)
	a.appWatch.onStateApplied(s.State, a.protocol.LeaseRemaining(now) > 0)
	if gap, lost := a.pendingPause.poll(now, a.protocol.LeaseRemaining(now) > 0); lost {
		a.lastPause.Store(&processPause{now, gap})
	}
	acked := a.protocol.Acked()
	a.ackedEpoch.Store(uint64(acked))
	a.changes.Acknowledged(acked, now)
	if fresh := a.acquireFailures.update(a.protocol.HeldShards); len(fresh) > 0 {
		a.log.Warn().Str("shards", shardmap.FormatShards(fresh)).Str("why", a.acquireFailures.reasonOf(fresh[0])).Msg("acquire hook failed, will retry")
	}
	report := a.pollReleases(now)
	a.keptByDrain.Store(keptShardsOf(a.protocol))
	a.stopped.Store(a.protocol.Stopped())
	a.boot.Store(a.protocol.Boot())
	a.overdue.check(now, a.protocol.Timing().DeadAfter, a.protocol.LeaseRemaining(now) > 0, a.router.InFlight, a.hooks.callCount())
	if a.suspicion != nil {
		a.suspicion.Poll(now)
	}
	if a.overdue.abortedAt != 0 {
		return 0 // keep polling until overdue has checked the aborted requests
	}
	return min(a.protocol.Due(now)-now, report)
}

// keysDigest returns the digest of the loaded key configuration; zero means none.
func (a *agent) keysDigest() uint64 {
	if a.keyConfigDigest == nil {
		return 0
	}
	return a.keyConfigDigest()
}

// PublishLease publishes the end of the lease to the request path; zero means no lease. missed reports that
// the previous lease had already ended when this one was published.
func (a *agent) PublishLease(until time.Duration) (missed bool) {
	a.router.SetAbortTime(a.protocol.AbortAt()) // first, because requests that the lease admits read it
	last, now := a.router.SetLease(until)
	if until == last {
		return false // unchanged
	}
	switch {
	case until != 0 && last == 0:
		a.log.Info().Msg("lease granted")
	case until == 0 && last != 0 && !a.goodbyeRequested.Load(): // after a goodbye, the end of the lease is planned
		a.metrics.leaseLapses.Inc()
		a.log.Warn().Msg("lease expired")
	}
	// A renewal may be too late: then the lease has expired for the leader, although this node has
	// never observed that.
	return max(now, a.clock.Now()) >= last
}

// PublishRouting replaces the routing table, and performs what follows from a new state.
func (a *agent) PublishRouting(r ack.Routing) {
	old, s := a.router.State(), r.State()
	a.acquireFailures.stale = true
	a.releases.setLeaving(a.leaving.Load() || s.Policy().IsDraining(a.self))
	if s.Proposed().Epoch() != old.Proposed().Epoch() {
		a.proxy.RenewPeersWhere(newlyExcluded(old, s))
	}
	a.proxy.Wake(a.router.SwapTable(r))
	a.changes.Routed(old, s, a.clock.Precise())
	if s.Committed().Epoch() != old.Committed().Epoch() {
		a.onCommit(old.Committed(), s)
	}
	if s.FormatVersion() != old.FormatVersion() {
		a.log.Info().Uint8("format_version", uint8(s.FormatVersion())).Msg("format version in force")
	}
	if s.TimingIndex() != old.TimingIndex() {
		a.log.Info().Str("timing", leaderloop.DescribeTiming(s.Timing())).Uint64("index", s.TimingIndex()).Msg("timing in force")
	}
	a.orphanedForwards.abortIfCaughtUp(s.Proposed().Epoch(), orphanedIn(s, a.lastIndexAtStart.Load()))
	if s.Proposed().Epoch() != old.Proposed().Epoch() && s.HasOpenProposal() {
		a.moveStages.RecordProposal(s, a.self, a.router.InFlight.CountOf)
		a.log.Debug().Uint64("epoch", uint64(s.Proposed().Epoch())).Msg("map proposed")
	}
}

// onCommit logs a new committed map, counts its moves and records when shards were received.
func (a *agent) onCommit(old *shardmap.Map, s *ack.State) {
	m := s.Committed()
	gained, lost := 0, 0
	for _, mv := range shardmap.Diff(old, m) {
		switch a.self {
		case mv.To:
			gained++
			a.receivedAt[mv.Shard] = a.clock.Precise()
		case mv.From:
			lost++
			if stage := a.moveStages.StageOf(mv.Shard); uint64(m.Epoch()) > a.lastIndexAtStart.Load() {
				a.metrics.movedShards.WithLabelValues(stage).Inc()
			}
		}
	}
	if uint64(m.Epoch()) <= a.lastIndexAtStart.Load() {
		a.log.Info().Uint64("epoch", uint64(m.Epoch())).Int("owned", m.ShardCount(a.self)).Msg("previous map read from log")
	} else {
		a.log.Info().Uint64("epoch", uint64(m.Epoch())).Int("owned", m.ShardCount(a.self)).Int("gained", gained).Int("lost", lost).Msg("map committed")
	}
	a.metrics.mapsCommitted.Inc()
	a.orphanedForwards.checkPending = true
}

// CountRunning counts the requests that run at the local app.
func (a *agent) CountRunning(may func(shardmap.Shard) bool) int {
	return a.router.InFlight.CountUnowned(may)
}

// AbortRequests aborts requests that run at the local app, for the reason why. With AbortDraining, it aborts only the
// requests of shards for which may returns false. Otherwise it aborts all requests.
func (a *agent) AbortRequests(why ackagent.AbortReason, may func(shardmap.Shard) bool) {
	switch why {
	case ackagent.AbortDraining:
		a.moveStages.RecordAborted(may, a.router.InFlight.CountOf)
		n := a.proxy.CancelShards(func(s shardmap.Shard) bool { return !may(s) }, why.String())
		a.log.Warn().Uint64("epoch", uint64(a.router.State().Proposed().Epoch())).Int("requests", n).Msg("requests aborted after drain timeout")
	case ackagent.AbortLeaseLost:
		n := a.proxy.CancelUpstream(why.String())
		a.overdue.recordAbort(a.clock.Precise())
		a.log.Warn().Int("requests", n).Msg("requests aborted, lease not renewed")
	case ackagent.AbortNewBoot: // this node takes a higher boot number and continues like a new process
		a.proxy.CancelUpstream(why.String())
	case ackagent.AbortGoodbye:
		a.proxy.CancelForStop(why.String())
	}
}

// handleAnswer handles a leader's response ans to a heartbeat. protocol decides what the response means: it
// may grant a lease, refuse the heartbeat, or belong to an earlier heartbeat.
func (a *agent) handleAnswer(now time.Duration, ans ack.Answer) {
	switch a.protocol.HandleAnswer(now, ans) {
	case ackagent.AnswerIgnored:
	case ackagent.AnswerCounted:
		a.refusalLogged = false
		a.duplicateAddr.Store(nil)
		a.lastAnswer.Store(int64(now))
		a.recordLeaderEpoch(ans.Epoch, now)
		if d, ok := a.roundTrips.Answered(ans.HeartbeatNumber, now); ok {
			a.metrics.heartbeatRoundTrips.Observe(d.Seconds())
		}
		a.orphanedForwards.observeEpoch(ans.Epoch)
		s := a.router.State()
		a.orphanedForwards.abortIfCaughtUp(s.Proposed().Epoch(), orphanedIn(s, a.lastIndexAtStart.Load()))
		a.keepsShards.Store(a.protocol.MapUnchanged())
		if current := a.protocol.IsUpToDate(); current && !a.upToDate.Swap(current) {
			a.changes.CaughtUp(a.router.State())
		}
	case ackagent.BootSuperseded:
		a.log.Warn().Uint64("boot", a.protocol.Boot()).Uint64("known", ans.KnownBoot).Msg("boot number superseded, using higher one")
	case ackagent.DiskRolledBack: // the data directory is an older image or a copy, so this node must stop
		a.fail(identity.RollbackError(ans))
	case ackagent.DuplicateNode:
		a.onDuplicate(ans.DuplicateAddr)
	case ackagent.DuplicatePersists: // Node.wait stops this node
		a.onDuplicate(ans.DuplicateAddr)
		select {
		case a.persistentDuplicate <- ans.DuplicateAddr:
		default:
		}
	}
}

// onDuplicate records and logs that another process has the ID of this node.
func (a *agent) onDuplicate(elsewhere string) {
	a.duplicateAddr.Store(&elsewhere)
	if !a.refusalLogged {
		a.refusalLogged = true
		a.log.Warn().Str("addr", elsewhere).Msg("heartbeat refused, node ID in use")
	}
}

// send sends a heartbeat to the leader and records the time.
func (a *agent) send(hb ack.Heartbeat) {
	a.roundTrips.Sent(hb.Number, a.clock.Precise())
	a.transmitHeartbeat(hb)
}

// ownedList returns the result of Held without MayWriteMS. Only the goroutine of agent.run may call it.
func (a *agent) ownedList() api.OwnedList {
	now, wall := a.clock.Precise(), time.Now().UTC()
	s := a.protocol.State()
	list := api.OwnedList{
		Node: string(a.self), Epoch: uint64(s.Committed().Epoch()), LeaseMS: max(a.protocol.LeaseRemaining(now), 0).Milliseconds(), Shards: []api.OwnedShard{},
	}
	held := a.protocol.HeldShards()
	if a.hooks == nil {
		held = a.unhooked(s, a.protocol.LeaseRemaining(now) > 0)
	}
	for _, h := range held {
		list.Shards = append(list.Shards, api.OwnedShard{
			Shard: uint32(h.Shard), Epoch: uint64(h.Epoch), State: h.Phase.String(), Since: wall.Add(h.Since - now).Round(time.Millisecond), Error: h.Err,
		})
	}
	return list
}

// unhooked returns the shards of an app without hooks, which is not informed of its shards: all shards that
// this node owns in the map. leased reports whether the node has a lease.
func (a *agent) unhooked(s *ack.State, leased bool) (held []ackagent.HeldShardView) {
	c := s.Committed()
	for sh := range shardmap.Shard(c.Len()) {
		if c.Owner(sh) != a.self {
			continue
		}
		h := ackagent.HeldShardView{Shard: sh, Epoch: c.OwnedSince(sh), Phase: ackagent.HookServing, Since: a.receivedAt[sh]}
		switch {
		case s.Proposed().Owner(sh) != a.self:
			h.Phase = ackagent.HookReleasing
		case !leased:
			h.Phase = ackagent.HookAcquiring
		}
		held = append(held, h)
	}
	return held
}

// IsLeaving reports whether this node gives up all its shards.
func (a *agent) IsLeaving() bool { return a.leaving.Load() }

// Leave makes this node give up all its shards. It returns false if the node already did.
func (a *agent) Leave() (started bool) {
	started = !a.leaving.Swap(true)
	chanutil.Notify(a.heartbeatNow)
	return started
}

// IsUpToDate reports whether this node has had the newest proposed map of the leader, so that its log is not
// far behind.
func (a *agent) IsUpToDate() bool { return a.upToDate.Load() }

// DuplicateAddr returns the address of another process with the ID of this node. It returns "" if the leader
// accepts the heartbeats of this node.
func (a *agent) DuplicateAddr() string {
	if addr := a.duplicateAddr.Load(); addr != nil {
		return *addr
	}
	return ""
}

// LastPause returns the length of the last pause that lost a lease or was longer than half a lease, and the
// time since its end. The length is zero if there was none.
func (a *agent) LastPause() (length, sinceEnd time.Duration) {
	p := a.lastPause.Load()
	if p == nil {
		return 0, 0
	}
	return p.lasted, a.clock.Precise() - p.at
}

// HasHooks reports whether the app is informed of its shards.
func (a *agent) HasHooks() bool { return a.hooks != nil }

// AcquireFailures lists the shards that the app has failed to acquire, and returns the error of the first
// one. Both are empty if there are none.
func (a *agent) AcquireFailures() (shards, why string) { return a.acquireFailures.describe() }

// RecentlyUnreleased returns the number of shards that moved without a release within the last
// agent.NotReleasedFor, and the error of the first of them.
func (a *agent) RecentlyUnreleased() (shards int, why string) {
	return a.releases.recentFailures(a.clock.Precise())
}

// KeptShards returns the number of shards that a safe drain keeps on this node because the app has not
// released them, and the error of the first of them.
func (a *agent) KeptShards() (shards int, why string) {
	if k := a.keptByDrain.Load(); k != nil {
		return k.shards, k.reason
	}
	return 0, ""
}

// SayGoodbye makes this node stop all requests, and then send a goodbye, the last heartbeat before a planned
// stop.
func (a *agent) SayGoodbye() {
	a.goodbyeRequested.Store(true)
	chanutil.Notify(a.heartbeatNow)
}

// HasStopped reports whether this node admits and runs no more requests.
func (a *agent) HasStopped() bool { return a.stopped.Load() }

// LastAnswer returns the time of the node's clock of the last accepted response to a heartbeat. Zero means
// that there was none.
func (a *agent) LastAnswer() time.Duration { return time.Duration(a.lastAnswer.Load()) }

// Boot returns the boot number that this node uses. It rises if a higher one of this node is known.
func (a *agent) Boot() uint64 { return a.boot.Load() }

// KeepsShards reports whether no other node can own the shards of this node.
func (a *agent) KeepsShards() bool { return a.keepsShards.Load() }

// Unanswered returns the oldest heartbeat to which the leader has not responded. Only the goroutine of run may
// call it.
func (a *agent) Unanswered() election.UnansweredHeartbeat { return a.protocol.UnansweredHeartbeat() }

// Call passes f to the goroutine of run, which calls it. It reports whether that goroutine has accepted f, and
// does not wait until f has returned.
func (a *agent) Call(ctx context.Context, f func()) bool {
	select {
	case a.calls <- f:
		return true
	case <-a.ended:
	case <-ctx.Done():
	}
	return false
}

// HasDuplicate reports whether the leader refuses this node because of another process with its ID.
func (a *agent) HasDuplicate() bool { return a.duplicateAddr.Load() != nil }

// Unreleased returns the number of shards that moved without a release since the last drain of this node
// began, and the error of the first of them.
func (a *agent) Unreleased() (shards int, why string) { return a.releases.drainFailures() }

// DrainBlockReason returns why a safe drain keeps all remaining shards on this node, see whyKept.
func (a *agent) DrainBlockReason(shards int) (why string) { return a.whyKept(shards) }

// Owned returns the shards that the app of this node holds.
func (a *agent) Owned(ctx context.Context) (api.OwnedList, error) {
	list := make(chan api.OwnedList, 1)
	select {
	case a.calls <- func() { list <- a.ownedList() }:
		return <-list, nil
	case <-a.ended:
		return api.OwnedList{}, fmt.Errorf("node %s has stopped", a.self)
	case <-ctx.Done():
		return api.OwnedList{}, ctx.Err()
	}
}
