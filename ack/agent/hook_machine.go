package agent

import (
	"math"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

const (
	// maxAttempt is the maximum timeout of one release call or one lost call.
	maxAttempt = 2 * time.Second
	// The pause between two attempts doubles from minRetryPause to maxRetryPause.
	minRetryPause = 100 * time.Millisecond
	maxRetryPause = 2 * time.Second
	// If a shard could not be released, a lost call makes the app drop it. The last
	// 1/lostCallFraction of ReleaseTimeout is reserved for these calls, but at least
	// minLostCallReserve, which is enough for one or two polls on a busy machine. The reserve is
	// never more than half of ReleaseTimeout.
	lostCallFraction   = 8
	minLostCallReserve = 100 * time.Millisecond
	// resendInterval is the time between two deliveries of the release notes.
	resendInterval = 100 * time.Millisecond
	// lostCallRetryTime is how long lost calls for a shard are retried.
	lostCallRetryTime = time.Minute
	// If a call gets no response, the next call for its shards names fewer shards, by the factor
	// batchDivisor. So a single shard that makes the app hang soon delays few others.
	batchDivisor = 16
)

// hookMachine decides which hook calls the app gets for the shards of its node. Each shard has
// a phase:
//
//	gone ──► acquiring ──► serving ──► releasing ──► gone
//
// Unless the app restarted or a call failed, an acquire call moves a shard to serving and a
// release call moves it to gone. A lost call is due for a gone shard that the app may still
// hold. An Agent owns the machine. It only advances within Agent.Poll, after the agent has
// published lease and routing of that poll.
type hookMachine struct {
	options        HookOptions
	self           shardmap.NodeID
	server         string
	boot           uint64
	callCount      uint64                       // calls started by this boot
	runningCalls   map[uint64]*runningCall      // by Seq
	firstUnstarted [HookLost + 1]shardmap.Shard // by kind: the first shard for which no call was free, so it comes first next time

	shards              []heldShard
	acquired            []shardmap.Epoch // by shard: the ownership epoch under which the shard serves; zero means that it does not. The slice is part of a published Routing, so it is never modified
	pendingResults      []HookResult     // since the last update
	reportedNotAcquired []shardEpoch     // shards that the app reported as not acquired

	firstLeaseEpoch shardmap.Epoch // the last proposal at the first lease; an earlier process may have served shards owned since this epoch or before
	hadLease        bool           // firstLeaseEpoch is set
	// restartIndex is the index of the last restart entry that a leader has reported. Until
	// this node has applied that entry, its state may lack the releases of its previous process.
	restartIndex uint64

	drainEpoch        shardmap.Epoch // the proposal to which releaseDeadline and appRefusesConns refer
	releaseDeadline   time.Duration  // deadline for releases; zero means that requests of moving shards still run
	appRefusesConns   bool           // the app refuses connections, so another release attempt is useless
	goodbyeDeadline   time.Duration  // when a stopping node sends its goodbye regardless of its app; zero means that it does not stop
	leaseRecovery     leaseRecovery
	keptReleasesEpoch shardmap.Epoch // epoch of the committed map for which the releases of a restart in place were prepared
	releaseDelivery

	acquireFailures acquireFailureState
	safeDrain       safeDrainState
	heartbeatDue    bool                             // safeDrain has changed and must be reported to the leader
	unreleasedMoves map[shardmap.Shard]time.Duration // when the shard moved without a release

	inputsChanged bool          // an input has changed since the last update
	nextUpdateAt  time.Duration // when the next update is due without a change of input
	inputs        hookInputs
}

// shardEpoch is a shard under one ownership epoch.
type shardEpoch struct {
	shard shardmap.Shard
	epoch shardmap.Epoch
}

// heldShard is the state of one shard at the app. The zero value has the phase HookGone.
type heldShard struct {
	phase      HookPhase // zero means HookGone
	phaseSince time.Duration
	// epoch is the ownership epoch of all fields.
	epoch shardmap.Epoch
	// callSeq is the Seq of the running call that names the shard; zero means none.
	callSeq uint64
	// appMayHold means that the app may hold the shard under epoch. releaseAttempted means that the
	// app may have released it. acquired means that the app has acquired the shard, but the node
	// does not serve it yet.
	appMayHold, releaseAttempted, appAcquired bool
	// served means that the shard has served under epoch. released means that the app has
	// released it since then and left note. A new acquire call voids both released and note.
	served, released bool
	note             []byte
	// lostCallDue means that a lost call is due. It is retried until lostCallDeadline.
	lostCallDue      bool
	lostCallDeadline time.Duration
	// retryPause is the pause before nextAttempt. maxBatch limits the number of shards in its
	// call.
	nextAttempt, retryPause time.Duration
	maxBatch                int
	abortedRequests         int
	lastError               string
	acquireFailures         int  // failed attempts to acquire it
	appResponded            bool // the app responded to a release call with an error
}

// runningCall is a hook call without a result.
type runningCall struct {
	HookCall
	deadline  time.Duration
	cancelled bool
}

// hookInputs is the input of one update.
type hookInputs struct {
	state *ack.State
	// mayRelease means that the node has a lease, or would still have the one that it voided to
	// stop.
	mayRelease bool
	// hasLease means that the node has a lease.
	hasLease        bool
	drainingEpoch   shardmap.Epoch
	stopping        bool
	restartsInPlace bool // the stopping node restarts in place, and its shards wait for its next process
}

func newHooks(options HookOptions, self shardmap.NodeID, server string, boot uint64) *hookMachine {
	return &hookMachine{options: options, self: self, server: server, boot: boot, runningCalls: map[uint64]*runningCall{}, acquired: []shardmap.Epoch{}, unreleasedMoves: map[shardmap.Shard]time.Duration{}, inputsChanged: true}
}

// update advances every shard and starts the calls that are due. It calls publish if other
// shards serve now. That happens before it counts running requests and before it starts a
// call.
func (m *hookMachine) update(now time.Duration, inputs hookInputs, publish func()) {
	if !m.inputsChanged && inputs == m.inputs && now < m.nextUpdateAt {
		return
	}
	m.inputs, m.inputsChanged, m.nextUpdateAt = inputs, false, now+time.Hour
	m.resize(inputs)
	m.resetSafeDrain()
	for _, result := range m.pendingResults {
		m.handleResult(now, result)
	}
	m.pendingResults = m.pendingResults[:0]
	for _, reported := range m.reportedNotAcquired {
		if held := &m.shards[reported.shard]; held.phase == HookServing && held.epoch == reported.epoch {
			held.setPhase(now, HookAcquiring)
		}
	}
	m.reportedNotAcquired = m.reportedNotAcquired[:0]
	for s := range m.shards {
		m.advance(now, shardmap.Shard(s), &m.shards[s])
	}
	if m.updateAcquired() {
		publish()
	}
	m.startCalls(now)
	m.updateAcquireFailures(now)
	m.cancelOverdue(now)
}

// resize allocates the shards after the bootstrap of the cluster. It also resets what depends
// on the first lease, on the prospect of a lease, and on the open proposal.
func (m *hookMachine) resize(inputs hookInputs) {
	if shards := inputs.state.Shards(); shards > len(m.shards) {
		m.shards = make([]heldShard, shards)
		m.acquired = make([]shardmap.Epoch, shards)
	}
	if inputs.hasLease && !m.hadLease {
		// A lease proves that this node has applied the last proposal or the committed
		// map. No earlier process owned a shard under a later epoch.
		m.hadLease, m.firstLeaseEpoch = true, inputs.state.Proposed().Epoch()
	}
	if m.leaseRecovery.waitsForLease = m.cannotGetLease(); !m.leaseRecovery.waitsForLease {
		m.leaseRecovery = leaseRecovery{}
	}
	if inputs.drainingEpoch != 0 && inputs.drainingEpoch != m.drainEpoch {
		m.drainEpoch, m.releaseDeadline, m.appRefusesConns = inputs.drainingEpoch, 0, false
	}
}

// logOwnership is the ownership of a shard according to the log.
type logOwnership struct {
	epoch        shardmap.Epoch // ownership epoch of the present owner
	isOwner      bool           // the committed map names this node
	remainsOwner bool           // owned, and neither the last proposal nor a stop takes the shard away
}

func (m *hookMachine) ownershipOf(shard shardmap.Shard) logOwnership {
	c := m.inputs.state.Committed()
	ownership := logOwnership{epoch: c.OwnedSince(shard), isOwner: c.Epoch() > 0 && c.Owner(shard) == m.self}
	ownership.remainsOwner = ownership.isOwner && m.inputs.state.Proposed().Owner(shard) == m.self && !m.inputs.stopping
	return ownership
}

// advance performs all phase changes that log, lease and time cause. handleResult performs
// those that the result of a call causes.
func (m *hookMachine) advance(now time.Duration, shard shardmap.Shard, held *heldShard) {
	ownership := m.ownershipOf(shard)
	sameEpoch := ownership.isOwner && ownership.epoch == held.epoch
	if held.callSeq != 0 {
		m.cancelUseless(now, shard, ownership, held)
		return // one call per shard at a time
	}
	switch held.phase {
	case HookAcquiring:
		switch {
		case !ownership.remainsOwner || !sameEpoch:
			held.abandon(now)
		case held.appAcquired && m.inputs.hasLease:
			held.setPhase(now, HookServing)
			held.served = true
		}
	case HookServing:
		switch {
		case !sameEpoch:
			held.abandon(now)
		case !ownership.remainsOwner:
			held.setPhase(now, HookReleasing)
			held.abortedRequests = 0
		}
	case HookReleasing:
		switch {
		case !sameEpoch:
			held.abandon(now)
		case !ownership.remainsOwner && m.releaseOverdue(now, shard) && m.keepsUnreleased(shard, held):
			// The next proposal leaves the shard here.
		case !ownership.remainsOwner && m.releaseOverdue(now, shard):
			m.reportUnreleased(now, shard, held)
			held.abandon(now)
		case ownership.remainsOwner && held.releaseAttempted:
			held.setPhase(now, HookAcquiring)
		case ownership.remainsOwner: // no release call was sent
			held.setPhase(now, HookServing)
		}
	case HookGone:
	}
	if held.isGone() && ownership.remainsOwner {
		held.appMayHold, held.served = held.appMayHold && sameEpoch, held.served && sameEpoch
		if !sameEpoch {
			held.released, held.note = false, nil
		}
		held.epoch, held.lostCallDue = ownership.epoch, false
		held.setPhase(now, HookAcquiring)
	}
	if held.lostCallDue && now >= held.lostCallDeadline {
		held.lostCallDue = false
	}
}

func (h *heldShard) isGone() bool { return h.phase == 0 || h.phase == HookGone }

func (h *heldShard) setPhase(now time.Duration, p HookPhase) {
	h.phase, h.phaseSince, h.nextAttempt, h.retryPause, h.maxBatch, h.releaseAttempted, h.appAcquired, h.lastError = p, now, now, 0, MaxHookShards, false, false, ""
	h.appResponded, h.acquireFailures = false, 0
}

// abandon gives up a shard without a release. The app gets a lost call if it may hold the
// shard.
func (h *heldShard) abandon(now time.Duration) {
	h.setPhase(now, HookGone)
	h.lostCallDue, h.lostCallDeadline = h.appMayHold, now+lostCallRetryTime
}

// releaseOverdue reports whether a moving shard no longer waits for its release: its time is
// over, or no release can succeed.
func (m *hookMachine) releaseOverdue(now time.Duration, shard shardmap.Shard) bool {
	if m.appRefusesConns || now >= m.callDeadline(shard)-m.lostCallReserve() {
		return true
	}
	drop, _ := m.inputs.state.Drop(m.self)
	// A node dropped for missing a round must acknowledge that map before it gets shards again.
	return m.cannotGetLease() && (m.leaseRecovery.graceExpired || drop.InForce && drop.Cause.MissedRound())
}

// cannotGetLease reports whether release calls are impossible because the node has no lease
// and cannot get one now. It stops, or the last map excludes it and it gets no lease before it
// has acknowledged that map.
func (m *hookMachine) cannotGetLease() bool {
	return !m.inputs.mayRelease && (m.inputs.stopping || m.inputs.state.IsDropped(m.self))
}

// lostCallReserve returns the part of a release timeout that is reserved for lost calls.
func lostCallReserve(release time.Duration) time.Duration {
	return max(release/lostCallFraction, min(minLostCallReserve, release/2))
}

// callDeadline returns when the calls about a shard that the node gives up must end. Running calls
// are cancelled then, and no call starts until the node has acknowledged. An acknowledgement
// waits only for shards that move, and does not wait longer if the node also stops.
func (m *hookMachine) callDeadline(shard shardmap.Shard) time.Duration {
	deadline := m.stopDeadline()
	if m.inputs.state.Proposed().Owner(shard) != m.self {
		deadline = min(deadline, m.acknowledgeDeadline())
	}
	return deadline
}

// acknowledgeDeadline returns when an acknowledgement stops waiting for the app.
func (m *hookMachine) acknowledgeDeadline() time.Duration {
	return deadlineOrNever(m.inputs.drainingEpoch == 0, m.releaseDeadline)
}

// stopDeadline returns when a goodbye stops waiting for the app.
func (m *hookMachine) stopDeadline() time.Duration {
	return deadlineOrNever(!m.inputs.stopping, m.goodbyeDeadline)
}

// deadlineOrNever returns the deadline, or the largest duration if there is none: disabled is set,
// or the deadline is zero because requests still run.
func deadlineOrNever(disabled bool, deadline time.Duration) time.Duration {
	if disabled || deadline == 0 {
		return math.MaxInt64
	}
	return deadline
}

// cancelUseless cancels a running call whose result no longer helps. An acquire call for a
// moving shard is useless, because the map change waits for the call.
func (m *hookMachine) cancelUseless(now time.Duration, shard shardmap.Shard, ownership logOwnership, held *heldShard) {
	call := m.runningCalls[held.callSeq]
	useless := false
	switch call.Kind {
	case HookAcquire:
		useless = !ownership.remainsOwner || ownership.epoch != held.epoch
	case HookRelease:
		useless = !ownership.isOwner || ownership.epoch != held.epoch || !ownership.remainsOwner && m.releaseOverdue(now, shard)
	case HookLost:
		useless = ownership.remainsOwner
	}
	if useless || now >= m.callDeadline(shard) {
		m.cancel(call)
	}
}

func (m *hookMachine) cancel(call *runningCall) {
	if !call.cancelled {
		call.cancelled = true
		m.options.App.CancelCall(call.Seq)
	}
}

// cancelAll cancels every running call.
func (m *hookMachine) cancelAll() {
	for _, seq := range m.runningSeqs() {
		m.cancel(m.runningCalls[seq])
	}
}

// runningSeqs returns the running calls, oldest first.
func (m *hookMachine) runningSeqs() []uint64 {
	seqs := make([]uint64, 0, len(m.runningCalls))
	for seq := range m.runningCalls {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// cancelOverdue cancels the calls whose timeout has passed, and schedules the next update.
func (m *hookMachine) cancelOverdue(now time.Duration) {
	for _, seq := range m.runningSeqs() {
		if call := m.runningCalls[seq]; now >= call.deadline {
			m.cancel(call)
		} else {
			m.wakeAt(call.deadline)
		}
	}
	for _, deadline := range [...]time.Duration{m.acknowledgeDeadline(), m.stopDeadline()} {
		for _, at := range [...]time.Duration{deadline - m.lostCallReserve(), deadline} {
			if at > now {
				m.wakeAt(at)
			}
		}
	}
}

func (m *hookMachine) wakeAt(at time.Duration) { m.nextUpdateAt = min(m.nextUpdateAt, at) }

// updateAcquired updates the published list of serving shards. It returns true if the list has
// changed.
func (m *hookMachine) updateAcquired() bool {
	for shard := range m.shards {
		if m.acquired[shard] != m.shards[shard].servingEpoch() {
			next := make([]shardmap.Epoch, len(m.shards))
			for shard := range m.shards {
				next[shard] = m.shards[shard].servingEpoch()
			}
			m.acquired = next
			return true
		}
	}
	return false
}

// servingEpoch returns the ownership epoch under which the shard serves; zero if it does not.
func (h *heldShard) servingEpoch() shardmap.Epoch {
	if h.phase != HookServing {
		return 0
	}
	return h.epoch
}

// movesReleased reports whether the hook calls for all moving shards are complete or overdue, and
// none of them still runs. mayRun returns false for the shards that move. The caller calls
// movesReleased after the last request of these shards has ended.
func (m *hookMachine) movesReleased(now time.Duration, mayRun func(shardmap.Shard) bool) bool {
	if m.releaseDeadline == 0 {
		m.releaseDeadline, m.inputsChanged = now+m.releaseTimeout()-m.deliveryReserve(), true
	}
	for s := range m.shards {
		held := &m.shards[s]
		if mayRun(shardmap.Shard(s)) {
			continue
		}
		if held.callSeq != 0 || !held.isGone() || held.lostCallDue && now < m.releaseDeadline {
			return false
		}
	}
	return true
}

// readyToStop is movesReleased for all shards of a stopping node that runs no requests. It
// also requires that the leader has received the release notes for the next process.
func (m *hookMachine) readyToStop(now time.Duration, acked shardmap.Epoch) bool {
	if m.goodbyeDeadline == 0 {
		m.goodbyeDeadline, m.appRefusesConns, m.inputsChanged = now+m.releaseTimeout(), false, true
		if m.inputs.restartsInPlace {
			m.goodbyeDeadline -= m.deliveryReserve()
		}
	}
	if m.deliveryPending(now) {
		return false // after the goodbye the leader no longer waits for the notes
	}
	for s := range m.shards {
		if held := &m.shards[s]; held.phase == HookReleasing || held.phase == HookServing || held.lostCallDue && now < m.goodbyeDeadline {
			return false
		}
	}
	if len(m.runningCalls) > 0 {
		return false
	}
	if epoch := m.inputs.state.Committed().Epoch(); m.inputs.restartsInPlace && m.keptReleasesEpoch != epoch && acked > 0 {
		m.keptReleasesEpoch = epoch
		m.prepareReleases(now, acked)
	}
	return !m.deliveryPending(now)
}

// deliveryPending reports whether the goodbye must wait for the delivery of release notes.
func (m *hookMachine) deliveryPending(now time.Duration) bool {
	return m.awaitsConfirmation() && (m.inputs.restartsInPlace || now < m.goodbyeDeadline)
}

// stopCalls cancels every running call. It returns true once none is left.
func (m *hookMachine) stopCalls() bool {
	for _, result := range m.pendingResults {
		delete(m.runningCalls, result.Seq)
	}
	m.pendingResults = m.pendingResults[:0]
	m.cancelAll()
	return len(m.runningCalls) == 0
}

// reboot forgets all hook calls of the previous boot, none of which may still run. Another
// process may in the meantime have served the same shards under the same epochs, so the app must
// acquire them again.
func (m *hookMachine) reboot(boot uint64) {
	m.boot, m.hadLease, m.firstLeaseEpoch, m.inputsChanged = boot, false, 0, true
	clear(m.shards)
	m.acquireFailures = acquireFailureState{}
	m.releaseDelivery, m.keptReleasesEpoch = releaseDelivery{}, 0
	m.acquired, m.reportedNotAcquired = make([]shardmap.Epoch, len(m.shards)), m.reportedNotAcquired[:0]
}

// countAbortedRequests counts the requests that the agent is about to abort because their shards
// move and are overdue.
func (m *hookMachine) countAbortedRequests(overdue func(shardmap.Shard) bool) {
	for s := range m.shards {
		if held := &m.shards[s]; held.phase == HookReleasing && overdue(shardmap.Shard(s)) {
			held.abortedRequests += m.options.App.CountRequests(shardmap.Shard(s))
		}
	}
}
