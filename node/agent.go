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
	"shardway/node/appinstance"
	"shardway/node/campaign"
	"shardway/node/eventlog"
	"shardway/node/heartbeat"
	"shardway/node/identity"
	"shardway/node/idleshards"
	"shardway/node/leaderloop"
	"shardway/node/metrics"
	"shardway/node/router"
	"shardway/proxy"
	"shardway/shardmap"
)

// agent runs the node's side of the lease protocol in one goroutine, run. The leader grants this node a
// lease in its response to a heartbeat, and the node serves its shards only with a lease. The decisions are
// made by protocol, which is an ackagent.Agent. agent implements ackagent.Gate for it: it opens and closes
// the router for requests.
type agent struct {
	self     shardmap.NodeID
	clock    clock.Clock
	log      zerolog.Logger
	metrics  *metrics.Metrics
	router   *router.Router
	proxy    *proxy.Server
	protocol *ackagent.Agent
	fail     func(error) // stops the node because of an error
	weight   uint32      // share of the shards relative to other nodes, at least 1
	// restartWithin is the announced time until the return after a goodbye, the last heartbeat before a planned
	// stop. Zero means that the node will not return.
	restartWithin time.Duration

	// Inputs of run, in addition to the responses of the leader.
	timer                *clock.Ticker   // expires at the next deadline of protocol
	busyTimer            *clock.Ticker   // ticks while the process is busy, because timer may then be late
	stateChanged         <-chan struct{} // notified when the log has a newer state
	heartbeatNow         chan struct{}   // notified to send a heartbeat now
	heartbeatIfNearlyDue chan struct{}   // notified to send a heartbeat early if it is nearly due
	callRequests         chan func()     // unbuffered: functions for run to call, until runReturned is closed
	runReturned          chan struct{}   // closed when run returns

	// Observations that poll passes to protocol.
	newestState     func() *ack.State
	keyConfigDigest func() uint64 // digest of the loaded key configuration; nil if none is loaded
	appHealthy      func() bool
	appHealth       func() ack.AppHealth
	appChecked      func() bool // false until the first health check of the app has ended
	instances       *appinstance.Selection
	services        *appinstance.Services
	unreachable     func() []string    // nodes that this node cannot reach; nil means none
	appWatch        *appinstance.Watch // watches for restarts of the app; nil if they do not matter

	// Heartbeats to the leader and its responses.
	transmitHeartbeat func(ack.Heartbeat) // does not block
	roundTrips        heartbeat.RoundTrips
	answers           chan ack.Answer   // unbuffered: responses of another node; heartbeat.Client stops sending when its ctx ends
	ownAnswers        <-chan ack.Answer // responses of the leader loop of this node
	leaseGranted      atomic.Int64      // latest end of a lease that the leader has granted, by the clock of the node
	lastAnswer        atomic.Int64      // when the last accepted response arrived, by the clock of the node; zero means never

	// Another process with this node's ID, because of which the leader refuses this node's heartbeats.
	duplicateAddr       atomic.Pointer[string] // address of that process; nil while the leader accepts the heartbeats
	persistentDuplicate chan string            // cap 1: address of a duplicate that persists, sent once
	refusalLogged       bool                   // the refusal because of duplicateAddr was logged; only run uses it

	// Requests of other goroutines.
	isLeaving        atomic.Bool // this node must give up all its shards
	goodbyeRequested atomic.Bool // this node must stop all requests and then say goodbye

	// State of protocol, published for other goroutines.
	hasStopped       atomic.Bool // this node admits and runs no more requests
	boot             atomic.Uint64
	hasNoTakeover    atomic.Bool                // no other node is left to take the shards of this leaving node
	isUpToDate       atomic.Bool                // this node has caught up with the leader's newest proposed map, so its log is not far behind
	missingMapSince  atomic.Int64               // since when this node has lacked a map that the leader reported, by its clock; zero if it lacks none
	lastIndexAtStart atomic.Uint64              // index of the last log entry at the start of this process
	keptByDrain      atomic.Pointer[keptShards] // shards that a safe drain leaves on this node; nil means none

	// Calls of the app's hooks.
	hooks           *hookRunner // nil means that the app has no hooks
	acquireFailures acquireFailures
	releases        releases
	overdue         overdueDetector

	// Pauses of the process.
	pauseDetector pauseDetector
	pendingPause  pendingPause                 // a pause that may still cause the loss of the lease
	lastPause     atomic.Pointer[processPause] // the last pause that lost a lease or was longer than half a lease; nil means none

	suspicion        *campaign.Suspicion // decides whether to campaign against the leader; nil until Raft has started
	orphanedForwards orphanedForwards
	moveStages       *idleshards.Stages

	// Records of map changes.
	changes     *eventlog.MapChangeRecorder
	recordEvent func(event.Event)                // nil means that events are not recorded
	startedAt   time.Duration                    // time of the clock at the start of this node
	join        *eventlog.JoinRecorder           // records the steps of the join
	hasJoined   bool                             // this node has had a lease; only run uses it
	appPassed   bool                             // the app has passed a health check; only run uses it
	receivedAt  map[shardmap.Shard]time.Duration // when this node last became the owner of each shard, by its clock; only run uses it
}

// processPause is a period in which the process did not run, or a jump of its clock.
type processPause struct {
	endedAt time.Duration // time of the clock
	length  time.Duration
}

var _ ackagent.Gate = (*agent)(nil)

// maxEarlyHeartbeat is how early a heartbeat may be sent in order to coincide with a Raft heartbeat.
const maxEarlyHeartbeat = 50 * time.Millisecond

// run handles all inputs of the agent until ctx ends, and then ends the lease and waits for hooks.
func (a *agent) run(ctx context.Context) {
	defer a.timer.Stop()
	defer a.busyTimer.Stop()
	defer close(a.runReturned)
	if a.hooks != nil {
		a.hooks.ctx = ctx
		defer a.waitForHooks(ctx)
	}
	if a.suspicion != nil {
		a.suspicion.Start(ctx)
	}
	a.timer.TickWithin(0)
	for {
		now, ok := a.handleInput(ctx)
		if !ok {
			a.router.SetLease(0)
			a.reportReleases()
			return
		}
		a.timer.TickWithin(a.poll(now)) //nolint:contextcheck // the requests of suspicion end with run
	}
}

// handleInput waits for one input and passes it to protocol. It returns the time of this turn, and false if ctx has
// ended. The caller must then call poll, which handles all changes of observed states.
func (a *agent) handleInput(ctx context.Context) (now time.Duration, ok bool) {
	hookResults, notAcquiredChanged := a.hooks.inputs()
	select {
	case <-ctx.Done():
		return 0, false
	case <-a.timer.C:
		// The timer may fire slightly early, and would not fire again within clock.MinInterval.
		now = a.BeginTurn()
		a.protocol.AdvanceHeartbeat(now, clock.MinInterval/2)
		return now, true
	case <-a.heartbeatIfNearlyDue:
		now = a.BeginTurn()
		a.protocol.AdvanceHeartbeat(now, maxEarlyHeartbeat)
		return now, true
	case answer := <-a.answers:
		now = a.BeginTurn()
		a.handleAnswer(now, answer)
		return now, true
	case answer := <-a.ownAnswers:
		now = a.BeginTurn()
		a.handleAnswer(now, answer)
		return now, true
	case <-a.busyTimer.C:
	case <-a.stateChanged:
	case <-a.router.InFlight.ReachedZero: // the last request of a shard has ended, so poll may acknowledge a proposal
	case <-a.heartbeatNow:
		a.protocol.HeartbeatNow()
	case result := <-hookResults:
		a.hooks.removeCall(result.Seq)
		a.acquireFailures.stale = true
		a.protocol.HookEnded(result)
	case <-notAcquiredChanged: // the app has reported that it does not hold a shard
		a.hooks.takeNotAcquired(a.protocol.ShardNotAcquired)
	case call := <-a.callRequests:
		call()
	}
	return a.BeginTurn(), true
}

// waitForHooks waits for the running hooks, which must end with ctx. A hook that is a Go function cannot be stopped
// from outside, so overdue reports hooks that do not return.
func (a *agent) waitForHooks(ctx context.Context) {
	a.overdue.waitFor(ctx, a.protocol.Timing().DeadAfter, "hooks", a.hooks.calls.Wait)
}

// BeginTurn returns the time, and notifies protocol if the process has run without a pause until now. It must be
// called before each input of protocol. After a gap of more than a quarter of the lease, protocol considers the
// lease lost, unless the process is known to have run during the gap.
func (a *agent) BeginTurn() time.Duration {
	now := a.clock.Precise()
	gap, hasRun := a.pauseDetector.beginTurn(now)
	if hasRun {
		a.protocol.MarkRunning(now)
		return now
	}
	lease := a.protocol.Timing().Lease
	if gap > lease/4 && a.pendingPause.recordPause(now, gap, lease, a.router.LeaseEnd()) {
		a.lastPause.Store(&processPause{endedAt: now, length: gap})
	}
	return now
}

// poll runs one step of the agent: it passes the current observation to protocol, and then updates everything that
// depends on the result, such as app instances, metrics and published state. It returns the time until the next
// call.
func (a *agent) poll(now time.Duration) (untilNext time.Duration) {
	observation := a.observe(now)
	a.protocol.Poll(now, observation)
	hasLease := a.protocol.LeaseRemaining(now) > 0
	a.appWatch.OnStateApplied(observation.State, hasLease)
	a.instances.OnStateApplied(&observation, hasLease)
	if length, lostLease := a.pendingPause.poll(now, hasLease); lostLease {
		a.lastPause.Store(&processPause{endedAt: now, length: length})
	}
	a.changes.RecordAcknowledged(a.protocol.Acked(), now)
	a.logNewAcquireFailures()
	untilReport := a.pollReleases(now)
	a.publishProtocolState()
	a.overdue.check(now, a.protocol.Timing().DeadAfter, hasLease, a.router.InFlight, a.hooks.callCount())
	if a.suspicion != nil {
		a.suspicion.Poll(now)
	}
	if a.overdue.isCheckPending() {
		return 0 // the check has no timer, so poll must run again as soon as possible
	}
	return min(a.protocol.Due(now)-now, untilReport)
}

// observe returns the current inputs of protocol that are states rather than events.
func (a *agent) observe(now time.Duration) ackagent.Observation {
	observation := ackagent.Observation{
		State:           a.newestState(),
		AppUnchecked:    !a.appChecked(),
		Unhealthy:       !a.appHealthy(),
		App:             a.appHealth(),
		Leaving:         a.isLeaving.Load(),
		Stopping:        a.goodbyeRequested.Load(),
		RestartWithin:   a.restartWithin,
		Weight:          a.weight,
		HasRequests:     a.router.HadRequests(),
		KeyConfigDigest: a.loadedKeysDigest(),
	}
	a.appWatch.AddTo(&observation)
	a.instances.AddTo(now, &observation)
	a.services.AddTo(now, a.instances.Checks(), &observation)
	if !observation.Unhealthy && !observation.AppUnchecked && !a.appPassed {
		a.appPassed = true
		a.join.End(event.StepApp)
	}
	if a.unreachable != nil {
		for _, node := range a.unreachable() {
			observation.Unreachable = append(observation.Unreachable, shardmap.NodeID(node))
		}
	}
	return observation
}

// loadedKeysDigest returns the digest of the loaded key configuration; zero means none.
func (a *agent) loadedKeysDigest() uint64 {
	if a.keyConfigDigest == nil {
		return 0
	}
	return a.keyConfigDigest()
}

// logNewAcquireFailures logs the shards that the app has failed to acquire for the first time in their
// ownership epoch.
func (a *agent) logNewAcquireFailures() {
	failed := a.acquireFailures.update(a.protocol.HeldShards)
	if len(failed) > 0 {
		a.log.Warn().Str("shards", a.router.State().FormatShards(failed)).Str("reason", a.acquireFailures.reasonOf(failed[0])).Msg("acquire hook failed, will retry")
	}
}

// publishProtocolState publishes the state of protocol for other goroutines.
func (a *agent) publishProtocolState() {
	a.keptByDrain.Store(keptShardsOf(a.protocol))
	a.hasStopped.Store(a.protocol.Stopped())
	a.boot.Store(a.protocol.Boot())
}

// PublishLease publishes the end of the lease to the request path; zero means no lease. It returns true if the
// previous lease had already ended when this one was published. In that case, requests may have been refused in
// between.
func (a *agent) PublishLease(until time.Duration) (missed bool) {
	a.router.SetAbortTime(a.protocol.AbortAt()) // first, because requests admitted under the lease read it
	previous, changedAt := a.router.SetLease(until)
	if until == previous {
		return false
	}
	wasGranted := until != 0 && previous == 0
	hasEnded := until == 0 && previous != 0
	if wasGranted {
		a.log.Info().Msg("lease granted")
		if !a.hasJoined {
			a.hasJoined = true
			a.join.End(event.StepLease)
			a.metrics.Joins.Observe((a.clock.Precise() - a.startedAt).Seconds())
		}
	}
	if isPlanned := a.goodbyeRequested.Load(); hasEnded && !isPlanned {
		a.metrics.LeaseLapses.Inc()
		a.log.Warn().Msg("lease expired")
	}
	// If a renewal is late, the lease has expired for the leader even though this node never noticed.
	return max(changedAt, a.clock.Now()) >= previous
}

// PublishRouting replaces the routing table, and then updates everything that depends on it: waiting requests,
// connections to peers, forwarded requests and events.
func (a *agent) PublishRouting(routing ack.Routing) {
	previous, state := a.router.State(), routing.State()
	isNewProposal := state.Proposed().Epoch() != previous.Proposed().Epoch()
	isNewCommit := state.Committed().Epoch() != previous.Committed().Epoch()
	a.acquireFailures.stale = true
	a.releases.setDraining(a.isLeaving.Load() || state.Policy().IsDraining(a.self))
	if isNewProposal {
		a.proxy.RenewPeersWhere(newlyExcluded(previous, state))
	}
	a.proxy.Wake(a.router.SwapTable(routing))
	a.changes.RecordRouted(previous, state, a.clock.Precise())
	if isNewCommit {
		a.recordJoinedMap(state)
		a.onCommit(previous.Committed(), state)
	}
	a.logNewSettings(previous, state)
	a.abortOrphanedForwards(state)
	if isNewProposal && state.HasOpenProposal() {
		a.moveStages.RecordProposal(state, a.self, a.router.InFlight.Count)
		a.log.Debug().Uint64("epoch", uint64(state.Proposed().Epoch())).Msg("map proposed")
	}
}

// logNewSettings logs the format version and the timing of state if they differ from those of previous.
func (a *agent) logNewSettings(previous, state *ack.State) {
	if state.FormatVersion() != previous.FormatVersion() {
		a.log.Info().Uint8("format_version", uint8(state.FormatVersion())).Msg("format version in force")
	}
	if state.TimingIndex() != previous.TimingIndex() {
		a.log.Info().Str("timing", leaderloop.DescribeTiming(state.Timing())).Uint64("index", state.TimingIndex()).Msg("timing in force")
	}
}

// abortOrphanedForwards aborts the requests that this node has forwarded to nodes that state excludes, if
// a map was committed since the last check.
func (a *agent) abortOrphanedForwards(state *ack.State) {
	a.orphanedForwards.abortIfCaughtUp(state.Proposed().Epoch(), orphanedIn(state, a.lastIndexAtStart.Load()))
}

// onCommit logs the new committed map of state, counts the shards that this node gains and loses, and records when
// it received them. previous is the previous committed map.
func (a *agent) onCommit(previous *shardmap.Map, state *ack.State) {
	committed := state.Committed()
	wasInLogAtStart := uint64(committed.Epoch()) <= a.lastIndexAtStart.Load()
	gained, lost := 0, 0 // a move between two app instances of this node counts as both
	for _, move := range shardmap.Diff(previous, committed) {
		if move.To == a.self {
			gained++
			a.receivedAt[move.Shard] = a.clock.Precise()
			if !wasInLogAtStart {
				a.router.InFlight.AwaitFirstEnd(move.Shard, a.receivedAt[move.Shard])
			}
		}
		if move.From == a.self {
			lost++
			if move.To != a.self {
				a.router.InFlight.AwaitFirstEnd(move.Shard, 0)
			}
			stage := a.moveStages.StageOf(move.Shard)
			if !wasInLogAtStart {
				a.metrics.HandedOverShards.WithLabelValues(stage).Inc()
			}
		}
	}
	line := a.log.Info().Uint64("epoch", uint64(committed.Epoch())).Int("owned", committed.ShardCount(a.self))
	if wasInLogAtStart {
		line.Msg("previous map read from log")
	} else {
		line.Int("gained", gained).Int("lost", lost).Msg("map committed")
	}
	a.metrics.MapsCommitted.Inc()
	a.orphanedForwards.checkPending = true
}

// CountRunning counts the requests that run at the local app, for shards for which mayRun returns false.
func (a *agent) CountRunning(mayRun func(shardmap.Shard) bool) int {
	return a.router.InFlight.CountUnowned(mayRun)
}

// AbortRequests aborts requests that run at the local app. If the reason is AbortDraining, it aborts only requests
// for shards for which mayRun returns false. Otherwise it aborts all requests.
func (a *agent) AbortRequests(reason ackagent.AbortReason, mayRun func(shardmap.Shard) bool) {
	switch reason {
	case ackagent.AbortDraining:
		a.moveStages.RecordAborted(mayRun, a.router.InFlight.Count)
		aborted := a.proxy.CancelShards(func(s shardmap.Shard) bool { return !mayRun(s) }, reason.String())
		a.log.Warn().Uint64("epoch", uint64(a.router.State().Proposed().Epoch())).Int("requests", aborted).Msg("requests aborted after drain timeout")
	case ackagent.AbortLeaseLost:
		aborted := a.proxy.CancelUpstream(reason.String())
		a.overdue.recordAbort(a.clock.Precise())
		a.log.Warn().Int("requests", aborted).Msg("requests aborted, lease not renewed")
	case ackagent.AbortNewBoot: // this node adopts a higher boot number and continues like a new process
		a.proxy.CancelUpstream(reason.String())
	case ackagent.AbortGoodbye:
		a.proxy.CancelForStop(reason.String())
	}
}

// handleAnswer handles a response of the leader to a heartbeat. protocol decides what the response means: it
// may grant a lease, refuse the heartbeat, or belong to an earlier heartbeat.
func (a *agent) handleAnswer(now time.Duration, answer ack.Answer) {
	if answer.ServeFor > 0 { // must be stored before protocol publishes the lease
		a.leaseGranted.Store(max(a.leaseGranted.Load(), int64(now+answer.LeaseDuration)))
	}
	switch a.protocol.HandleAnswer(now, answer) {
	case ackagent.AnswerIgnored:
	case ackagent.AnswerCounted:
		a.onAnswerAccepted(now, answer)
	case ackagent.BootSuperseded:
		a.log.Warn().Uint64("boot", a.protocol.Boot()).Uint64("known", answer.KnownBoot).Msg("boot number superseded, using higher one")
	case ackagent.DiskRolledBack: // the data directory is an old image or a copy, so this node must stop
		a.fail(identity.RollbackError(answer))
	case ackagent.DuplicateNode:
		a.onDuplicate(answer.DuplicateAddr)
	case ackagent.DuplicatePersists: // Node.waitForStop stops this node
		a.onDuplicate(answer.DuplicateAddr)
		select {
		case a.persistentDuplicate <- answer.DuplicateAddr:
		default:
		}
	}
}

// LeaseGrantedUntil returns the latest end of a lease that the leader has granted to this node, by the clock of the node.
func (a *agent) LeaseGrantedUntil() time.Duration { return time.Duration(a.leaseGranted.Load()) }

// onAnswerAccepted records a response of the leader that protocol has accepted.
func (a *agent) onAnswerAccepted(now time.Duration, answer ack.Answer) {
	a.refusalLogged = false
	a.duplicateAddr.Store(nil)
	a.lastAnswer.Store(int64(now))
	a.recordLeaderEpoch(answer.Epoch, now)
	if roundTrip, ok := a.roundTrips.Answered(answer.HeartbeatNumber, now); ok {
		a.metrics.HeartbeatRoundTrips.Observe(roundTrip.Seconds())
	}
	a.orphanedForwards.observeEpoch(answer.Epoch)
	a.abortOrphanedForwards(a.router.State())
	a.hasNoTakeover.Store(a.protocol.MapUnchanged())
	if a.protocol.IsUpToDate() && !a.isUpToDate.Swap(true) {
		a.changes.CaughtUp(a.router.State())
		a.join.End(event.StepLog)
		a.recordJoinedMap(a.router.State())
	}
}

// recordJoinedMap records whether the committed map of state contains this node. A map that the node read from its
// log at startup does not count.
func (a *agent) recordJoinedMap(state *ack.State) {
	if a.isUpToDate.Load() && state.Committed().IsMember(a.self) {
		a.join.End(event.StepMap)
	}
}

// onDuplicate records and logs that another process, at the given address, has the ID of this node.
func (a *agent) onDuplicate(addr string) {
	a.duplicateAddr.Store(&addr)
	if !a.refusalLogged {
		a.refusalLogged = true
		a.log.Warn().Str("addr", addr).Msg("heartbeat refused, node ID in use")
	}
}

// send sends a heartbeat to the leader and records the time.
func (a *agent) send(hb ack.Heartbeat) {
	a.roundTrips.RecordSent(hb.Number, a.clock.Precise())
	a.transmitHeartbeat(hb)
}

// ownedList returns the result of Owned. Only the goroutine of run may call it.
func (a *agent) ownedList() api.OwnedList {
	now, wallNow := a.clock.Precise(), time.Now().UTC()
	leaseLeft := a.protocol.LeaseRemaining(now)
	state := a.protocol.State()
	list := api.OwnedList{
		Node: string(a.self), Epoch: uint64(state.Committed().Epoch()), LeaseMS: max(leaseLeft, 0).Milliseconds(), Shards: []api.OwnedShard{},
	}
	held := a.protocol.HeldShards()
	if a.hooks == nil {
		held = a.ownedWithoutHooks(state, leaseLeft > 0)
	}
	for _, shard := range held {
		heldSince := wallNow.Add(shard.Since - now).Round(time.Millisecond)
		list.Shards = append(list.Shards, api.OwnedShard{
			Shard: uint32(shard.Shard), Epoch: uint64(shard.Epoch), State: shard.Phase.String(), Since: heldSince, Error: shard.Err,
		})
	}
	return list
}

// ownedWithoutHooks returns the shards that this node owns in the committed map of state. It is for apps without
// hooks, which are not told their shards, so the phases are derived from the map and the lease.
func (a *agent) ownedWithoutHooks(state *ack.State, hasLease bool) (owned []ackagent.HeldShardView) {
	committed := state.Committed()
	for shard := range shardmap.Shard(committed.Len()) {
		if committed.Owner(shard) != a.self {
			continue
		}
		phase := ackagent.HookServing
		if !hasLease {
			phase = ackagent.HookAcquiring
		}
		if movesAway := !state.Proposed().HasSameOwner(committed, shard); movesAway {
			phase = ackagent.HookReleasing
		}
		owned = append(owned, ackagent.HeldShardView{Shard: shard, Epoch: committed.OwnedSince(shard), Instance: committed.Instance(shard), Phase: phase, Since: a.receivedAt[shard]})
	}
	return owned
}

// IsLeaving reports whether this node gives up all its shards.
func (a *agent) IsLeaving() bool { return a.isLeaving.Load() }

// Leave makes this node give up all its shards. It returns false if the node already did.
func (a *agent) Leave() (started bool) {
	started = !a.isLeaving.Swap(true)
	chanutil.Notify(a.heartbeatNow)
	return started
}

// IsUpToDate reports whether this node has caught up with the leader's newest proposed map, so that its log is not
// far behind.
func (a *agent) IsUpToDate() bool { return a.isUpToDate.Load() }

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
	return p.length, a.clock.Precise() - p.endedAt
}

// HasHooks reports whether the app is informed of its shards.
func (a *agent) HasHooks() bool { return a.hooks != nil }

// AcquireFailures lists the shards that the app has failed to acquire, and returns the error of the first one. Both
// results are empty if there are none.
func (a *agent) AcquireFailures() (list, firstError string) {
	return a.acquireFailures.describe(a.router.State().FormatShards)
}

// RecentlyUnreleased counts the shards that moved without a release within the last
// ackagent.UnreleasedMoveWindow, and returns the error of the first of them.
func (a *agent) RecentlyUnreleased() (count int, firstError string) {
	return a.releases.recentFailures(a.clock.Precise())
}

// KeptShards counts the shards that a safe drain keeps on this node because the app has not released them, and
// returns the error of the first of them.
func (a *agent) KeptShards() (count int, firstError string) {
	kept := a.keptByDrain.Load()
	if kept == nil {
		return 0, ""
	}
	return kept.count, kept.firstError
}

// SayGoodbye makes this node stop all requests, and then send a goodbye, the last heartbeat before a planned
// stop.
func (a *agent) SayGoodbye() {
	a.goodbyeRequested.Store(true)
	chanutil.Notify(a.heartbeatNow)
}

// HasStopped reports whether this node admits and runs no more requests.
func (a *agent) HasStopped() bool { return a.hasStopped.Load() }

// LastAnswer returns when the last accepted response of the leader to a heartbeat arrived, by the clock of the
// node. Zero means never.
func (a *agent) LastAnswer() time.Duration { return time.Duration(a.lastAnswer.Load()) }

// Boot returns the boot number of this node. It rises if a higher one becomes known.
func (a *agent) Boot() uint64 { return a.boot.Load() }

// HasNoTakeover reports whether no other node is left to take the shards of this leaving node.
func (a *agent) HasNoTakeover() bool { return a.hasNoTakeover.Load() }

// Unanswered returns the oldest heartbeat to which the leader has not responded. Only the goroutine of run may
// call it.
func (a *agent) Unanswered() election.UnansweredHeartbeat { return a.protocol.UnansweredHeartbeat() }

// Call makes the goroutine of run call f, without waiting for f to return. It returns false if ctx or run ended
// before run accepted f.
func (a *agent) Call(ctx context.Context, f func()) (accepted bool) {
	select {
	case a.callRequests <- f:
		return true
	case <-a.runReturned:
	case <-ctx.Done():
	}
	return false
}

// HasDuplicate reports whether the leader refuses this node because of another process with its ID.
func (a *agent) HasDuplicate() bool { return a.duplicateAddr.Load() != nil }

// Unreleased counts the shards that moved without a release since the last drain of this node began, and
// returns the error of the first of them.
func (a *agent) Unreleased() (count int, firstError string) { return a.releases.drainFailures() }

// DrainBlockReason returns why a safe drain keeps all remaining shards on this node. remaining is the number of
// these shards. The result is empty if some of them can still move.
func (a *agent) DrainBlockReason(remaining int) string {
	kept := a.keptByDrain.Load()
	if kept == nil || kept.count < remaining {
		return ""
	}
	return "the app has not released them (" + kept.firstError + "); repair the app and drain again, or drain without --safe"
}

// Owned returns the shards that the app of this node holds, without MayWriteMS.
func (a *agent) Owned(ctx context.Context) (api.OwnedList, error) {
	list := make(chan api.OwnedList, 1)
	select {
	case a.callRequests <- func() { list <- a.ownedList() }:
		return <-list, nil
	case <-a.runReturned:
		return api.OwnedList{}, fmt.Errorf("node %s has stopped", a.self)
	case <-ctx.Done():
		return api.OwnedList{}, ctx.Err()
	}
}
