package ack

import (
	"math"
	"slices"
	"time"

	"shardway/shardmap"
)

const (
	// attemptMost bounds an attempt to release, and one to tell that a shard is lost.
	maxAttempt = 2 * time.Second
	// retryFirst and retryMost bound the pause between two attempts, which doubles.
	minRetryPause = 100 * time.Millisecond
	maxRetryPause = 2 * time.Second
	// lostShare is the part of ReleaseTimeout that is kept for telling that what could not
	// be released is lost, and lostLeast the least of it unless that is more than half: a
	// look or two of a busy machine.
	lostFraction = 8
	minLostTime  = 100 * time.Millisecond
	// deliverShare is the part of ReleaseTimeout that is kept for bringing the leader what
	// was released, deliverLeast the least of it unless that is more than a quarter, and
	// deliverAgain the pause between two attempts at that.
	deliverFraction = 16
	minDeliverTime  = 100 * time.Millisecond
	resendInterval  = 100 * time.Millisecond
	// lostFor is how long an app that does not take it is told that a shard is lost.
	lostRetryTime = time.Minute
	// splitBy is by how much the calls get smaller that name shards of one that was not
	// answered: one shard that hangs holds up few others.
	batchDivisor = 16
)

// hooks decides what the app is told of the shards of its node. An Agent owns it; it
// moves on only within a look, after lease and table of that look were published.
type hookMachine struct {
	o            HookOptions
	self         shardmap.NodeID
	server       string
	boot         uint64
	calls        uint64 // made so far
	running      map[uint64]*runningCall
	firstWaiting [HookLost + 1]shardmap.Shard // by kind: who found no room comes first

	shards      []heldShard
	acquired    []shardmap.Epoch // by shard, zero: it does not serve; published, so never changed
	results     []HookResult     // since the last look
	notAcquired []shardEpoch     // what the app says it does not hold

	firstLeaseEpoch shardmap.Epoch // what this process owned before is higher than this only if it is new to it
	hadLease        bool           // since is set
	// absences is the last entry on an absence that a leader has told of. Until it is applied
	// here, nobody knows with what the last process has restarted in place.
	restartIndex uint64

	drainEpoch   shardmap.Epoch // the proposal that the three below are about
	releaseBy    time.Duration  // zero: requests of shards that move still run
	appRefuses   bool           // nothing answers at the app's address: no attempt to release helps
	stopBy       time.Duration  // when a node that leaves says goodbye whatever its app does; zero: it stays
	recovery     leaseRecovery
	keptForEpoch shardmap.Epoch // the map of which it was put together what waits for the next process
	releaseDelivery

	acquireFailures acquireFailureState
	safeDrain       safeDrainState
	reportNow       bool                             // the leader is to hear of keeping
	notReleased     map[shardmap.Shard]time.Duration // when it moved though the app had not released it

	dirty   bool          // something has changed since the last look
	nextDue time.Duration // when something is due though nothing changes
	seen    observed
}

// ownership is a shard under one ownership epoch.
type shardEpoch struct {
	shard shardmap.Shard
	epoch shardmap.Epoch
}

// holding is what the app has of one shard. The zero value is gone.
type heldShard struct {
	phase HookPhase // zero: HookGone
	since time.Duration
	// epoch is the ownership epoch that all of this is about.
	epoch shardmap.Epoch
	// call is under way and names the shard; zero: none is.
	call uint64
	// told: the app may hold the shard under epoch. tried: it may have released it. has: it
	// has acquired it, and does not serve yet.
	mayHold, mayHaveReleased, acquired bool
	// served: it has served under epoch. released: the app has released it since, and left
	// note. An acquire voids that.
	served, released bool
	note             []byte
	// forget: it is to be told that the shard is lost, until forgetBy.
	lostPending bool
	lostUntil   time.Duration
	// due is when the next attempt is, pause what the last one waited, most how many
	// shards may be in its call.
	nextAttempt, retryPause time.Duration
	maxBatch                int
	cutRequests             int
	err                     string
	failures                int  // attempts to acquire it that failed
	appResponded            bool // the app has answered a release, with an error
}

// calling is an attempt that is under way.
type runningCall struct {
	HookCall
	deadline  time.Duration
	cancelled bool
}

// sight is what a look goes by.
type observed struct {
	state *State
	// granted: the lease holds, or the node has ended it itself and it would.
	leaseHeld bool
	// leased: it may serve.
	mayServe bool
	draining shardmap.Epoch
	stopping bool
	returns  bool // and the node comes back: its shards wait for its next process
}

func newHooks(o HookOptions, self shardmap.NodeID, server string, boot uint64) *hookMachine {
	return &hookMachine{o: o, self: self, server: server, boot: boot, running: map[uint64]*runningCall{}, acquired: []shardmap.Epoch{}, notReleased: map[shardmap.Shard]time.Duration{}, dirty: true}
}

// look moves every shard on and publishes what serves by the given function, before
// it counts what runs and before a call leaves.
func (m *hookMachine) update(now time.Duration, v observed, publish func()) {
	if !m.dirty && v == m.seen && now < m.nextDue {
		return
	}
	m.seen, m.dirty, m.nextDue = v, false, now+time.Hour
	m.resize(v)
	m.resetSafeDrain()
	for _, r := range m.results {
		m.handleResult(now, r)
	}
	m.results = m.results[:0]
	for _, o := range m.notAcquired {
		if h := &m.shards[o.shard]; h.phase == HookServing && h.epoch == o.epoch {
			h.setPhase(now, HookAcquiring)
		}
	}
	m.notAcquired = m.notAcquired[:0]
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

// fit makes room for the shards of a cluster just born, and starts what counts from
// the first lease and from the present proposal.
func (m *hookMachine) resize(v observed) {
	if n := v.state.Shards(); n > len(m.shards) {
		m.shards = make([]heldShard, n)
		m.acquired = make([]shardmap.Epoch, n)
	}
	if v.mayServe && !m.hadLease {
		// A lease says that the last map proposed was known here by now, or the
		// committed one: what is given by a later one no earlier process had.
		m.hadLease, m.firstLeaseEpoch = true, v.state.Last().Epoch()
	}
	if m.recovery.active = m.cannotGetLease(); !m.recovery.active {
		m.recovery = leaseRecovery{}
	}
	if v.draining != 0 && v.draining != m.drainEpoch {
		m.drainEpoch, m.releaseBy, m.appRefuses = v.draining, 0, false
	}
}

// standing is what the log says of a shard.
type logOwnership struct {
	epoch   shardmap.Epoch // of its present owner
	owned   bool           // the committed map names this node
	remains bool           // and nothing takes it from it
}

func (m *hookMachine) ownershipOf(s shardmap.Shard) logOwnership {
	c := m.seen.state.Committed()
	st := logOwnership{epoch: c.OwnedSince(s), owned: c.Epoch() > 0 && c.Owner(s) == m.self}
	st.remains = st.owned && m.seen.state.Last().Owner(s) == m.self && !m.seen.stopping
	return st
}

// turn is every transition that the log, the lease and the time lead to. Results lead
// to the others, see take.
func (m *hookMachine) advance(now time.Duration, s shardmap.Shard, h *heldShard) {
	st := m.ownershipOf(s)
	same := st.owned && st.epoch == h.epoch
	if h.call != 0 {
		m.cancelUseless(now, s, st, h)
		return // one delivery at a time
	}
	switch h.phase {
	case HookAcquiring:
		switch {
		case !st.remains || !same:
			h.abandon(now)
		case h.acquired && m.seen.mayServe:
			h.setPhase(now, HookServing)
			h.served = true
		}
	case HookServing:
		switch {
		case !same:
			h.abandon(now)
		case !st.remains:
			h.setPhase(now, HookReleasing)
			h.cutRequests = 0
		}
	case HookReleasing:
		switch {
		case !same:
			h.abandon(now)
		case !st.remains && m.releaseOverdue(now, s) && m.keepsUnreleased(s, h):
			// the next proposal leaves it here
		case !st.remains && m.releaseOverdue(now, s):
			m.reportUnreleased(now, s, h)
			h.abandon(now)
		case st.remains && h.mayHaveReleased:
			h.setPhase(now, HookAcquiring)
		case st.remains: // nothing has left yet
			h.setPhase(now, HookServing)
		}
	case HookGone:
	}
	if h.gone() && st.remains {
		h.mayHold, h.served = h.mayHold && same, h.served && same
		if !same {
			h.released, h.note = false, nil
		}
		h.epoch, h.lostPending = st.epoch, false
		h.setPhase(now, HookAcquiring)
	}
	if h.lostPending && now >= h.lostUntil {
		h.lostPending = false
	}
}

func (h *heldShard) gone() bool { return h.phase == 0 || h.phase == HookGone }

func (h *heldShard) setPhase(now time.Duration, p HookPhase) {
	h.phase, h.since, h.nextAttempt, h.retryPause, h.maxBatch, h.mayHaveReleased, h.acquired, h.err = p, now, now, 0, MaxHookShards, false, false, ""
	h.appResponded, h.failures = false, 0
}

// leave gives a shard up that the app may still hold, and that it is to forget.
func (h *heldShard) abandon(now time.Duration) {
	h.setPhase(now, HookGone)
	h.lostPending, h.lostUntil = h.mayHold, now+lostRetryTime
}

// late reports that a shard that moves waits no longer for its release: the node has
// had its time, or nothing can come of it any more.
func (m *hookMachine) releaseOverdue(now time.Duration, s shardmap.Shard) bool {
	if m.appRefuses || now >= m.deadline(s)-m.lostTime() {
		return true
	}
	d := m.seen.state.drops[m.self]
	return m.cannotGetLease() && (m.recovery.expired || d.InForce && d.Cause.missedRound()) // the way back of one who is slow is to acknowledge that
}

// hopeless reports that no release can leave as things are, for want of a lease: the node
// leaves, or is left out and gets none before it has acknowledged that.
func (m *hookMachine) cannotGetLease() bool {
	return !m.seen.leaseHeld && (m.seen.stopping || m.seen.state.Dropped(m.self))
}

// lostTime is kept of ReleaseTimeout for telling what is lost.
func lostTime(release time.Duration) time.Duration {
	return max(release/lostFraction, min(minLostTime, release/2))
}

// deliverTime is kept of it for bringing the leader what was released.
func deliverTime(release time.Duration) time.Duration {
	return max(release/deliverFraction, min(minDeliverTime, release/4))
}

// deadline is when the app has had its time to be told what the node gives up now of a
// shard: what is under way then is cut, and nothing more begun before that is done. Only of
// what moves an acknowledgement waits for, and that waits no longer because the node leaves, too.
func (m *hookMachine) deadline(s shardmap.Shard) time.Duration {
	by := m.stopDeadline()
	if m.seen.state.Last().Owner(s) != m.self {
		by = min(by, m.moveDeadline())
	}
	return by
}

// moving is when an acknowledgement waits for the app no more, parting when a goodbye does.
func (m *hookMachine) moveDeadline() time.Duration {
	return deadlineOrNever(m.seen.draining == 0, m.releaseBy)
}

func (m *hookMachine) stopDeadline() time.Duration {
	return deadlineOrNever(!m.seen.stopping, m.stopBy)
}

// unless returns a deadline, or that there is none: off, or zero as long as requests run.
func deadlineOrNever(off bool, by time.Duration) time.Duration {
	if off || by == 0 {
		return math.MaxInt64
	}
	return by
}

// hurry cuts a call that nothing good can come of any more. An acquire of a shard that
// moves is one, for the map change waits for it.
func (m *hookMachine) cancelUseless(now time.Duration, s shardmap.Shard, st logOwnership, h *heldShard) {
	c := m.running[h.call]
	over := false
	switch c.Kind {
	case HookAcquire:
		over = !st.remains || st.epoch != h.epoch
	case HookRelease:
		over = !st.owned || st.epoch != h.epoch || !st.remains && m.releaseOverdue(now, s)
	case HookLost:
		over = st.remains
	}
	if over || now >= m.deadline(s) {
		m.cancel(c)
	}
}

func (m *hookMachine) cancel(c *runningCall) {
	if !c.cancelled {
		c.cancelled = true
		m.o.App.CutCall(c.Seq)
	}
}

// endAll cuts every call.
func (m *hookMachine) cancelAll() {
	for _, seq := range m.runningSeqs() {
		m.cancel(m.running[seq])
	}
}

// order returns the calls that are under way, oldest first.
func (m *hookMachine) runningSeqs() []uint64 {
	seqs := make([]uint64, 0, len(m.running))
	for seq := range m.running {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// overdue cuts the calls that have had their time.
func (m *hookMachine) cancelOverdue(now time.Duration) {
	for _, seq := range m.runningSeqs() {
		if c := m.running[seq]; now >= c.deadline {
			m.cancel(c)
		} else {
			m.wakeAt(c.deadline)
		}
	}
	for _, by := range [...]time.Duration{m.moveDeadline(), m.stopDeadline()} {
		for _, at := range [...]time.Duration{by - m.lostTime(), by} {
			if at > now {
				m.wakeAt(at)
			}
		}
	}
}

func (m *hookMachine) wakeAt(at time.Duration) { m.nextDue = min(m.nextDue, at) }

// publishes reports that other shards serve than were published last, and notes them.
func (m *hookMachine) updateAcquired() bool {
	for s := range m.shards {
		if m.acquired[s] != m.shards[s].servingEpoch() {
			next := make([]shardmap.Epoch, len(m.shards))
			for s := range m.shards {
				next[s] = m.shards[s].servingEpoch()
			}
			m.acquired = next
			return true
		}
	}
	return false
}

// serves returns the ownership epoch under which the shard serves, zero if it does
// not.
func (h *heldShard) servingEpoch() shardmap.Epoch {
	if h.phase != HookServing {
		return 0
	}
	return h.epoch
}

// settled reports that the app has been told of every shard that moves, or has had its
// time for it, and that nothing of that is under way. It is asked once no request of
// such a shard runs any more.
func (m *hookMachine) movesReleased(now time.Duration, may func(shardmap.Shard) bool) bool {
	if m.releaseBy == 0 {
		m.releaseBy, m.dirty = now+m.releaseTimeout()-m.deliverTime(), true
	}
	for s := range m.shards {
		h := &m.shards[s]
		if may(shardmap.Shard(s)) {
			continue
		}
		if h.call != 0 || !h.gone() || h.lostPending && now < m.releaseBy {
			return false
		}
	}
	return true
}

// parted reports the same of all shards, of a node that is to say goodbye and runs no
// request any more, and that the leader has what the next process gets.
func (m *hookMachine) readyToStop(now time.Duration, acked shardmap.Epoch) bool {
	if m.stopBy == 0 {
		m.stopBy, m.appRefuses, m.dirty = now+m.releaseTimeout(), false, true
		if m.seen.returns {
			m.stopBy -= m.deliverTime()
		}
	}
	if m.deliveryPending(now) {
		return false // at the goodbye the leader goes on without it
	}
	for s := range m.shards {
		if h := &m.shards[s]; h.phase == HookReleasing || h.phase == HookServing || h.lostPending && now < m.stopBy {
			return false
		}
	}
	if len(m.running) > 0 {
		return false
	}
	if e := m.seen.state.Committed().Epoch(); m.seen.returns && m.keptForEpoch != e && acked > 0 {
		m.keptForEpoch = e
		m.prepareRelease(now, acked)
	}
	return !m.deliveryPending(now)
}

// brings reports that a goodbye waits for what is on its way to the leader.
func (m *hookMachine) deliveryPending(now time.Duration) bool {
	return m.pending() && (m.seen.returns || now < m.stopBy)
}

// ended cuts every call, and reports that none is under way any more.
func (m *hookMachine) stopCalls() bool {
	for _, r := range m.results {
		delete(m.running, r.Seq)
	}
	m.results = m.results[:0]
	m.cancelAll()
	return len(m.running) == 0
}

// reboot forgets what the app was told under a lower boot, of which nothing is under
// way: another process may have run the same shards under the same epochs.
func (m *hookMachine) reboot(boot uint64) {
	m.boot, m.hadLease, m.firstLeaseEpoch, m.dirty = boot, false, 0, true
	clear(m.shards)
	m.acquireFailures = acquireFailureState{}
	m.releaseDelivery, m.keptForEpoch = releaseDelivery{}, 0
	m.acquired, m.notAcquired = make([]shardmap.Epoch, len(m.shards)), m.notAcquired[:0]
}

// cutting counts the requests that are about to be cut because their shards move.
func (m *hookMachine) countCutRequests() {
	for s := range m.shards {
		if h := &m.shards[s]; h.phase == HookReleasing {
			h.cutRequests += m.o.App.Busy(shardmap.Shard(s))
		}
	}
}
