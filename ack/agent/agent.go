package agent

import (
	"cmp"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Agent is the protocol machine of one node. It owns LeaseHolder and Follower, and decides when the
// node admits, routes, drains, acknowledges and sends heartbeats. See Poll for the order. The
// zero Agent is not usable.
type Agent struct {
	options  Options
	holder   *LeaseHolder
	follower *Follower
	hooks    *hookMachine // nil means no hooks

	// Heartbeats.
	nextHeartbeat     time.Duration // when the next periodic heartbeat is due
	confirmationDue   bool          // the next Poll confirms a response, see Options.IsFollowingVoter
	confirmationSent  bool          // a confirmation was sent since the last periodic heartbeat
	initialHeartbeats int           // number of heartbeats sent in quick succession to the current leader
	answerTerm        uint64        // term of the last response that counted; zero means none
	lastRequestAt     time.Duration // when a poll last found new requests; zero means never

	// State that leaders have reported.
	leaseTerm       uint64        // term of the lease at the last poll; zero means that there was none
	supersedingBoot uint64        // a higher boot of this node that the leader knows; zero means none
	duplicateSince  time.Duration // since when the leader has refused this node because of another process; zero if it does not
	mapUnchanged    bool          // no node is left to take the shards of this leaving node
	upToDate        bool          // a leader has confirmed that this node has the last proposal

	// The stop of the node.
	restarting     bool          // it has stopped admitting requests, and its shards wait for its next process
	stoppingSince  time.Duration // when it stopped admitting requests; zero if it has not
	voidedLeaseEnd time.Duration // end of the lease that was voided for Stopping; zero means none
	stopped        bool          // it has permanently stopped admitting and running requests
}

// New returns the agent of a process that starts now, before its first state.
func New(options Options, now time.Duration) *Agent {
	a := &Agent{
		options:  options,
		holder:   NewLeaseHolder(options.Boot, now),
		follower: NewFollower(options.Node, options.Pace.DrainTimeout),
	}
	if options.Hooks != nil && !options.Gateway {
		a.hooks = newHookMachine(*options.Hooks, nodeProcess{node: options.Node, server: options.Server, boot: options.Boot})
	}
	return a
}

// Poll checks all inputs and acts on them. It must be called at the time returned by Due, and
// immediately after HeartbeatNow, AdvanceHeartbeat, HandleAnswer, HookEnded and ShardNotAcquired,
// after a new state, and after the end of a request counted by CountRunning or CountRequests. now
// is the last reading of the clock; the agent itself reads no clock.
//
// The order of these steps guarantees G1, one owner at a time:
//  1. End the lease and publish the routing that stops a shard.
//  2. Count the running requests.
//  3. Make the app release the moving shards.
//  4. Acknowledge the proposal once these shards have no running request and are released.
//  5. Send the heartbeat, which contains the acknowledgement.
func (a *Agent) Poll(now time.Duration, obs Observation) {
	if obs.HasRequests {
		a.lastRequestAt = now
	}
	a.holder.Tick(now)
	a.voidLease(obs)
	a.beginRestart(obs)
	a.publishLease()
	a.applyState(now, obs.State)
	a.abortAfterLease(now)
	a.updateHooks(now, obs)
	a.acknowledgeDrained(now)
	a.sendReleases(now)
	a.raiseBoot()
	a.finishStopping(now, obs)
	heartbeatDue := now >= a.nextHeartbeat || a.confirmationDue
	if heartbeatDue && a.supersedingBoot == 0 && !obs.AppUnchecked {
		a.sendHeartbeat(now, obs)
	}
}

// abortAfterLease aborts requests and hook calls a while after the end of the lease, because another
// node may own the shards soon.
func (a *Agent) abortAfterLease(now time.Duration) {
	if !a.holder.AbortDue(now) {
		return
	}
	a.options.Gate.AbortRequests(AbortLeaseLost, noShard)
	if a.hooks != nil {
		a.hooks.calls.cancelAll()
	}
}

// sendReleases sends pending release notes to the leader.
func (a *Agent) sendReleases(now time.Duration) {
	if a.hooks == nil || a.supersedingBoot != 0 {
		return
	}
	if gaveUp := a.hooks.delivery.sendDue(now); gaveUp {
		a.nextHeartbeat = 0 // the acknowledgement no longer contains a digest
	}
}

// noShard is the predicate that is false for every shard.
func noShard(shardmap.Shard) bool { return false }

// publishLease publishes the lease to the Gate. With a new lease it also publishes the routing
// again, because queued requests check only a new routing. The routing of a cluster that stops the
// world also depends on the term of the lease.
func (a *Agent) publishLease() {
	leaseEnd, hasLease := a.holder.LeaseEnd()
	if !hasLease {
		leaseEnd = 0
	}
	requestsWait := a.options.Gate.PublishLease(leaseEnd)
	hadLease, leaseTerm := a.leaseTerm != 0, a.holder.Term()
	termChanged := leaseTerm != a.leaseTerm
	a.leaseTerm = leaseTerm
	admitsAgain := hasLease && (!hadLease || requestsWait)
	if admitsAgain || termChanged && a.stopsTheWorld() {
		a.publishRouting(a.follower.State())
	}
	if hadLease && !hasLease {
		// Ask for a new lease immediately: the old one may have ended only because a busy machine
		// looked paused.
		a.initialHeartbeats, a.nextHeartbeat = 0, 0
	}
}

// AbortAt returns the time at which Poll aborts the running requests (Gate.AbortRequests), unless the
// node gets another lease first. It returns zero before the first lease.
func (a *Agent) AbortAt() time.Duration { return a.holder.abortAt }

// stopsTheWorld reports whether a map change pauses all requests in the cluster. The pause depends on
// the term of the lease, so a new term needs new routing.
func (a *Agent) stopsTheWorld() bool {
	return a.follower.State().Timing().RebalanceMode == ack.RebalanceStopTheWorld
}

// publishRouting publishes the routing of a state to the Gate.
func (a *Agent) publishRouting(state *ack.State) {
	routing := ack.NewRouting(a.options.Node, state, a.leaseTerm, a.options.Gateway)
	if a.hooks != nil {
		routing = routing.WithAcquired(a.hooks.acquired)
	}
	if a.restarting {
		routing = routing.WithRestarting()
	}
	a.options.Gate.PublishRouting(routing)
}

// applyState makes the node route and drain according to the given state.
func (a *Agent) applyState(now time.Duration, state *ack.State) {
	if state != a.follower.State() {
		a.publishRouting(state)
		a.follower.ApplyState(now, state)
	}
}

// updateHooks gives the hook machine the current state, so that it can start acquire and release
// calls. It does nothing if a newer process of this node is taking over.
func (a *Agent) updateHooks(now time.Duration, obs Observation) {
	if a.hooks == nil || a.supersedingBoot != 0 {
		return
	}
	state := a.follower.State()
	_, hasLease := a.holder.LeaseEnd()
	a.hooks.update(now, hookInputs{
		state:           state,
		drainingEpoch:   a.follower.Draining(),
		hasLease:        hasLease,
		mayRelease:      hasLease || obs.Stopping && now < a.voidedLeaseEnd,
		stopping:        obs.Stopping,
		restartsInPlace: obs.Stopping && obs.RestartWithin > 0,
	}, func() { a.publishRouting(state) })
	if a.hooks.safeDrain.heartbeatDue {
		a.hooks.safeDrain.heartbeatDue, a.nextHeartbeat = false, 0
	}
}

// acknowledgeDrained acknowledges the proposal once no request runs for a shard that must stop
// here, and the app has released these shards.
func (a *Agent) acknowledgeDrained(now time.Duration) {
	epoch := a.follower.Draining()
	if epoch == 0 {
		return
	}
	if a.options.Gate.CountRunning(a.follower.MayRun) > 0 {
		a.abortOverdue(now)
		return
	}
	if a.hooks != nil {
		if !a.hooks.movesReleased(now, a.follower.WillOwn) {
			return
		}
		a.hooks.prepareReleases(now, epoch)
	}
	a.follower.RecordDrained(epoch)
	a.nextHeartbeat = 0
}

// abortOverdue aborts the requests that have exceeded drain-timeout.
func (a *Agent) abortOverdue(now time.Duration) {
	if !a.follower.AbortDue(now) {
		return
	}
	overdue := func(shard shardmap.Shard) bool { return a.follower.IsOverdue(now, shard) }
	if a.hooks != nil {
		a.hooks.countAbortedRequests(overdue)
	}
	a.options.Gate.AbortRequests(AbortDraining, func(shard shardmap.Shard) bool { return !overdue(shard) })
}

// MarkRunning reports, before Poll and HandleAnswer, that the process was running until now, even
// if these calls are late. The lease is then kept, because a busy machine is not a paused one.
func (a *Agent) MarkRunning(now time.Duration) { a.holder.MarkRunning(now) }

// Boot returns the boot under which the node sends heartbeats.
func (a *Agent) Boot() uint64 { return a.holder.Boot() }

// State returns the state that the node routes by.
func (a *Agent) State() *ack.State { return a.follower.State() }

// Acked returns the last acknowledged proposal; zero if there is none.
func (a *Agent) Acked() shardmap.Epoch { return a.follower.Acked() }

// Draining returns the proposal that the node drains for; zero if there is none.
func (a *Agent) Draining() shardmap.Epoch { return a.follower.Draining() }

// LeaseRemaining returns the rest of the lease, zero without one.
func (a *Agent) LeaseRemaining(now time.Duration) time.Duration { return a.holder.Remaining(now) }

// LeaseTerm returns the term of the leader that granted the current lease, zero without one. A
// response may show that the process was paused, which ends the lease early; requests notice this
// after the next Poll.
func (a *Agent) LeaseTerm() uint64 { return cmp.Or(a.holder.Term(), a.leaseTerm) }

// Timing returns the timing of the cluster as far as the log of the node contains it.
func (a *Agent) Timing() ack.Timing {
	if state := a.follower.State(); state.Bootstrapped() {
		return state.Timing()
	}
	return a.options.Timing
}

// MapUnchanged reports whether no node is left to take the shards of this leaving node.
func (a *Agent) MapUnchanged() bool { return a.mapUnchanged }

// Stopped reports whether the node has permanently stopped admitting and running requests and says
// goodbye in its heartbeats.
func (a *Agent) Stopped() bool { return a.stopped }

// IsUpToDate reports whether a leader has confirmed that this node has the last proposal, so its
// log is not far behind.
func (a *Agent) IsUpToDate() bool { return a.upToDate }
