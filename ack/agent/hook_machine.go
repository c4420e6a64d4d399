package agent

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// maxUpdateInterval is the maximum time between two updates without new inputs.
const maxUpdateInterval = time.Hour

// hookMachine decides which hook calls the app gets for the shards of its node. Each shard has
// a phase:
//
//	gone ──► acquiring ──► serving ──► releasing ──► gone
//
// An acquire call makes the app load a shard, and moves it to serving. A release call makes the app
// write and drop the shard, and moves it to gone. A lost call makes the app drop a shard without
// writing it. It is due for a gone shard that the app may still hold.
//
// An Agent owns the machine. The machine only advances within Agent.Poll, after the agent has
// published lease and routing of that poll.
type hookMachine struct {
	options HookOptions
	process nodeProcess

	// Calls.
	calls runningCalls
	// firstUnstarted is, by kind, the first shard that found no free call in the last update. The
	// next update starts with it.
	firstUnstarted [HookLost + 1]shardmap.Shard
	pendingResults []HookResult // since the last update

	// Shards.
	shards []heldShard // by shard; empty before the bootstrap of the cluster
	// acquired contains, by shard, the ownership epoch under which the shard is serving; zero if it
	// is not. The slice is part of a published Routing, so it is never modified.
	acquired            []shardmap.Epoch
	reportedNotAcquired []shardEpoch // shards that the app has reported as not acquired since the last update
	acquireFailures     acquireFailures

	// Releases, for the open proposal or for the stop of the node.
	deadlines releaseDeadlines
	// refusesConns contains the app instances that refuse connections, so that another release
	// attempt would also fail.
	refusesConns      map[shardmap.Instance]bool
	leaseRecovery     leaseRecovery
	safeDrain         safeDrain
	releaseEnds       releaseEnds
	delivery          releaseDelivery
	keptReleasesEpoch shardmap.Epoch // committed map for which the releases of a restart in place were prepared

	// Schedule of updates.
	inputs        hookInputs    // of the last update
	inputsChanged bool          // results or reports have arrived since the last update
	nextUpdateAt  time.Duration // when the next update is due without a change of input
}

// shardEpoch is a shard under one ownership epoch.
type shardEpoch struct {
	shard shardmap.Shard
	epoch shardmap.Epoch
}

// hookInputs is the input of one update.
type hookInputs struct {
	state *ack.State // newest state of the log
	// drainingEpoch is the proposal that the node has not acknowledged yet; zero means none.
	drainingEpoch shardmap.Epoch
	hasLease      bool // the node has a lease
	// mayRelease is set if the node has a lease, or would still have the one that it voided to
	// stop.
	mayRelease      bool
	stopping        bool // the node must give up all its shards
	restartsInPlace bool // the stopping node will restart, and its shards wait for its next process
}

// newHookMachine returns the hook machine of a node before its first update.
func newHookMachine(options HookOptions, process nodeProcess) *hookMachine {
	return &hookMachine{
		options: options, process: process,
		calls:           runningCalls{app: options.App, bySeq: map[uint64]*runningCall{}},
		acquired:        []shardmap.Epoch{},
		acquireFailures: newAcquireFailures(&options),
		deadlines:       releaseDeadlines{ownTimeout: options.ReleaseTimeout},
		releaseEnds:     releaseEnds{report: options.ReleaseEnded, unreleasedMoves: map[shardmap.Shard]time.Duration{}},
		delivery:        releaseDelivery{send: options.SendReleases},
		refusesConns:    map[shardmap.Instance]bool{},
		inputsChanged:   true,
	}
}

// update applies new inputs, results and reports to every shard, and starts the calls that are due.
// It calls publishRouting if the set of serving shards has changed, before it counts running
// requests and before it starts a call.
func (m *hookMachine) update(now time.Duration, inputs hookInputs, publishRouting func()) {
	isDue := m.inputsChanged || inputs != m.inputs || now >= m.nextUpdateAt
	if !isDue {
		return
	}
	m.inputsChanged, m.nextUpdateAt = false, now+maxUpdateInterval
	m.setInputs(inputs)
	m.allocateShards()
	m.resetSafeDrain()
	for _, result := range m.pendingResults {
		m.applyResult(now, result)
	}
	m.pendingResults = m.pendingResults[:0]
	m.reacquireReported(now)
	for shard := range m.shards {
		m.advance(now, shardmap.Shard(shard), &m.shards[shard])
	}
	if m.updateAcquired() {
		publishRouting()
	}
	m.startCalls(now)
	m.updateAcquireFailures(now)
	m.wakeAt(m.calls.cancelOverdue(now))
	m.wakeAt(m.deadlines.nextAfter(now))
}

// setInputs stores the inputs of an update, and passes them to the parts that depend on them.
func (m *hookMachine) setInputs(inputs hookInputs) {
	m.inputs = inputs
	if inputs.hasLease {
		m.process.recordLease(inputs.state)
	}
	m.leaseRecovery.setWaitsForLease(m.cannotGetLease())
	if isNewProposal := m.deadlines.setInputs(inputs, m.process.node); isNewProposal {
		clear(m.refusesConns) // their releases may be tried again
	}
}

// allocateShards allocates the shards after the bootstrap of the cluster, and further shards when the map
// has become longer for a new service.
func (m *hookMachine) allocateShards() {
	if missing := m.inputs.state.Shards() - len(m.shards); missing > 0 {
		m.shards = append(m.shards, make([]heldShard, missing)...)
		m.acquired = append(slices.Clone(m.acquired), make([]shardmap.Epoch, missing)...) // a Routing may still use the previous slice
	}
}

// reacquireReported returns to HookAcquiring the serving shards that the app has reported as not
// acquired.
func (m *hookMachine) reacquireReported(now time.Duration) {
	for _, reported := range m.reportedNotAcquired {
		if held := &m.shards[reported.shard]; held.phase == HookServing && held.epoch == reported.epoch {
			held.setPhase(now, HookAcquiring)
		}
	}
	m.reportedNotAcquired = m.reportedNotAcquired[:0]
}

// wakeAt schedules an update at the given time, unless one is scheduled earlier.
func (m *hookMachine) wakeAt(at time.Duration) { m.nextUpdateAt = min(m.nextUpdateAt, at) }

// shardOwnership is the ownership of a shard according to the Raft log.
type shardOwnership struct {
	epoch      shardmap.Epoch // ownership epoch of the owner in the committed map
	instance   shardmap.Instance
	isOwner    bool // the committed map assigns the shard to this node
	keepsShard bool // isOwner, and neither the last proposal nor a stop takes the shard away
}

// isOwnerUnder reports whether this node owns the shard under the given ownership epoch. Otherwise
// another node owns it, or has owned it in between.
func (lo shardOwnership) isOwnerUnder(epoch shardmap.Epoch) bool {
	return lo.isOwner && lo.epoch == epoch
}

// ownershipOf returns the ownership of the shard in the state being processed.
func (m *hookMachine) ownershipOf(shard shardmap.Shard) shardOwnership {
	committed := m.inputs.state.Committed()
	isOwner := committed.Epoch() > 0 && committed.Owner(shard) == m.process.node
	return shardOwnership{
		epoch:      committed.OwnedSince(shard),
		isOwner:    isOwner,
		instance:   committed.Instance(shard),
		keepsShard: isOwner && !m.isMoving(shard) && !m.inputs.stopping,
	}
}

// isMoving reports whether the last proposal assigns the shard to another node, to another instance
// of this node, or to none.
func (m *hookMachine) isMoving(shard shardmap.Shard) bool {
	committed, proposed := m.inputs.state.Committed(), m.inputs.state.Proposed()
	return proposed.Owner(shard) != m.process.node || movesWithinNode(committed, proposed, shard)
}

// nextOwner returns the instance to which the last proposal moves the shard, as shardmap.InstanceID
// does; empty means that none is known.
func (m *hookMachine) nextOwner(shard shardmap.Shard) shardmap.NodeID {
	if !m.isMoving(shard) {
		return ""
	}
	return m.inputs.state.Proposed().OwnerInstanceID(shard)
}

// callDeadline returns the deadline for hook calls for a shard that is being released.
func (m *hookMachine) callDeadline(shard shardmap.Shard) time.Duration {
	return m.deadlines.callDeadline(m.isMoving(shard))
}

// advance moves a shard to the next phase if the log, the lease or a deadline requires it. Phase
// changes caused by the result of a call are made by applyResult.
func (m *hookMachine) advance(now time.Duration, shard shardmap.Shard, held *heldShard) {
	ownership := m.ownershipOf(shard)
	if held.callSeq != 0 {
		m.cancelObsoleteCall(now, shard, ownership, held)
		return // no phase change or further call before the result
	}
	switch held.phase {
	case HookAcquiring:
		m.advanceAcquiring(now, ownership, held)
	case HookServing:
		m.advanceServing(now, ownership, held)
	case HookReleasing:
		m.advanceReleasing(now, shard, ownership, held)
	case HookNotHeld:
	}
	if held.isNotHeld() && ownership.keepsShard {
		held.beginAcquiring(now, ownership)
		held.setService(m.inputs.state, shard)
	}
	if held.needsLostCall && now >= held.lostCallDeadline {
		held.needsLostCall = false
	}
}

// advanceAcquiring abandons a shard that the node does not keep. It makes an acquired shard serve
// once the node has a lease.
func (m *hookMachine) advanceAcquiring(now time.Duration, ownership shardOwnership, held *heldShard) {
	if !ownership.keepsShard || !ownership.isOwnerUnder(held.epoch) {
		held.abandon(now)
		return
	}
	if held.appAcquired && m.inputs.hasLease {
		held.setPhase(now, HookServing)
		held.served = true
	}
}

// advanceServing stops a shard that another node owns or will own.
func (m *hookMachine) advanceServing(now time.Duration, ownership shardOwnership, held *heldShard) {
	if !ownership.isOwnerUnder(held.epoch) {
		held.abandon(now) // the next owner may already be serving, so do not release
		return
	}
	if !ownership.keepsShard {
		held.setPhase(now, HookReleasing)
		held.abortedRequests = 0
	}
}

// advanceReleasing ends the release of a shard that stays at the node, or whose release is overdue.
// A successful release call ends it in applyResult.
func (m *hookMachine) advanceReleasing(now time.Duration, shard shardmap.Shard, ownership shardOwnership, held *heldShard) {
	if !ownership.isOwnerUnder(held.epoch) {
		m.restartReleaseTime(shard)
		held.abandon(now) // the next owner may serve already
		return
	}
	if ownership.keepsShard {
		held.resume(now)
		return
	}
	if !m.isReleaseOverdue(now, shard) {
		return
	}
	if m.keepsUnreleased(held) {
		m.recordKept(shard, held) // the next proposal leaves the shard here
		return
	}
	m.reportUnreleased(now, shard, held)
	held.abandon(now)
}

// isReleaseOverdue reports whether a moving shard no longer waits for its release, because its time
// is over or no release can succeed.
func (m *hookMachine) isReleaseOverdue(now time.Duration, shard shardmap.Shard) bool {
	if m.refusesConns[m.shards[shard].instance] || now >= m.callDeadline(shard)-m.deadlines.lostCallReserve() {
		return true
	}
	if !m.cannotGetLease() {
		return false
	}
	// A node that was excluded for missing a round must acknowledge that map before it gets shards again.
	drop, _ := m.inputs.state.Drop(m.process.node)
	mustAcknowledgeFirst := drop.InForce && drop.Cause.MissedRound()
	return m.leaseRecovery.graceExpired || mustAcknowledgeFirst
}

// cannotGetLease reports whether release calls are impossible because the node has no lease and
// cannot get one now. Either the node is stopping, or the last map excludes it and it gets no lease
// before acknowledging that map.
func (m *hookMachine) cannotGetLease() bool {
	return !m.inputs.mayRelease && (m.inputs.stopping || m.inputs.state.IsDropped(m.process.node))
}

// cancelObsoleteCall cancels the running call of the shard if its result no longer helps, or its
// deadline has passed.
func (m *hookMachine) cancelObsoleteCall(now time.Duration, shard shardmap.Shard, ownership shardOwnership, held *heldShard) {
	call := m.calls.bySeq[held.callSeq]
	if m.isObsolete(now, call.Kind, shard, ownership, held) || now >= m.callDeadline(shard) {
		m.calls.cancel(call)
	}
}

// isObsolete reports whether the result of a running call of the given kind no longer helps.
func (m *hookMachine) isObsolete(now time.Duration, kind HookKind, shard shardmap.Shard, ownership shardOwnership, held *heldShard) bool {
	ownsUnderEpoch := ownership.isOwnerUnder(held.epoch)
	switch kind {
	case HookAcquire: // the shard moves, and the map change is waiting for the call to end
		return !ownership.keepsShard || !ownsUnderEpoch
	case HookRelease: // the next owner may already be serving, or no time is left
		return !ownsUnderEpoch || !ownership.keepsShard && m.isReleaseOverdue(now, shard)
	case HookLost: // the app must acquire the shard again
		return ownership.keepsShard
	}
	return false
}

// updateAcquired updates the published list of serving shards. It returns true if the list has
// changed.
func (m *hookMachine) updateAcquired() bool {
	changed := false
	for shard := range m.shards {
		changed = changed || m.acquired[shard] != m.shards[shard].servingEpoch()
	}
	if !changed {
		return false
	}
	next := make([]shardmap.Epoch, len(m.shards)) // a Routing may still use the previous slice
	for shard := range m.shards {
		next[shard] = m.shards[shard].servingEpoch()
	}
	m.acquired = next
	return true
}

// movesReleased reports whether the hook calls for all moving shards are complete or overdue, and
// none of them still runs. mayRun returns false for the shards that move. It must be called only
// after the last request of these shards has ended, because the first call starts the time for
// releases.
func (m *hookMachine) movesReleased(now time.Duration, mayRun func(shardmap.Shard) bool) bool {
	if started := m.deadlines.startRelease(now); started {
		m.inputsChanged = true
	}
	for i := range m.shards {
		if mayRun(shardmap.Shard(i)) {
			continue
		}
		held := &m.shards[i]
		if held.callSeq != 0 || !held.isNotHeld() {
			return false
		}
		if held.needsLostCall && now < m.deadlines.release {
			return false
		}
	}
	return true
}

// readyToStop reports whether a stopping node that runs no requests may send its goodbye. It may if
// no hook call is running, no shard waits for one, and the leader has received the release notes.
// acked is the last acknowledged proposal; zero means none.
func (m *hookMachine) readyToStop(now time.Duration, acked shardmap.Epoch) bool {
	if started := m.deadlines.startLeaveNotice(now); started {
		clear(m.refusesConns)
		m.inputsChanged = true
	}
	if m.deliveryPending(now) {
		return false // after the goodbye the leader no longer waits for the notes
	}
	if m.stopAwaitsShards(now) || len(m.calls.bySeq) > 0 {
		return false
	}
	m.prepareKeptReleases(now, acked)
	return !m.deliveryPending(now)
}

// stopAwaitsShards reports whether a shard still waits for a release call or a lost call.
func (m *hookMachine) stopAwaitsShards(now time.Duration) bool {
	for i := range m.shards {
		held := &m.shards[i]
		awaitsRelease := held.phase == HookServing || held.phase == HookReleasing
		awaitsLostCall := held.needsLostCall && now < m.deadlines.goodbye
		if awaitsRelease || awaitsLostCall {
			return true
		}
	}
	return false
}

// deliveryPending reports whether the goodbye must wait for the delivery of release notes.
func (m *hookMachine) deliveryPending(now time.Duration) bool {
	return m.delivery.awaitsConfirmation() && (m.inputs.restartsInPlace || now < m.deadlines.goodbye)
}

// stopCalls cancels every running call, before a new boot. It returns true once no call runs. Results
// that have arrived are discarded, because reboot forgets their shards.
func (m *hookMachine) stopCalls() bool {
	for _, result := range m.pendingResults {
		delete(m.calls.bySeq, result.Seq)
	}
	m.pendingResults = m.pendingResults[:0]
	m.calls.cancelAll()
	return len(m.calls.bySeq) == 0
}

// reboot forgets all hook calls of the previous boot, none of which may still be running. Another
// process may have served the same shards under the same epochs in the meantime, so the app must
// acquire them again.
func (m *hookMachine) reboot(boot uint64) {
	m.process.reboot(boot)
	clear(m.shards)
	m.acquired = make([]shardmap.Epoch, len(m.shards)) // a Routing may still use the previous slice
	m.acquireFailures = newAcquireFailures(&m.options)
	m.delivery.discard()
	m.keptReleasesEpoch = 0
	m.reportedNotAcquired = m.reportedNotAcquired[:0]
	m.inputsChanged = true
}

// countAbortedRequests counts the requests that the agent is about to abort because their shards
// move and are overdue.
func (m *hookMachine) countAbortedRequests(overdue func(shardmap.Shard) bool) {
	for i := range m.shards {
		shard, held := shardmap.Shard(i), &m.shards[i]
		if held.phase == HookReleasing && overdue(shard) {
			held.abortedRequests += m.options.App.CountRequests(shard)
		}
	}
}
