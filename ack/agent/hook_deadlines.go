package agent

import (
	"math"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// ReleaseTimeout consists of three parts, in this order: release calls, lost calls for the shards
// that could not be released, and the delivery of the release notes to the leader. A map change or
// a goodbye waits for each part, but not longer.

const (
	// maxAttempt is the maximum timeout of one release call or one lost call.
	maxAttempt = 2 * time.Second
	// If a shard could not be released, a lost call makes the app drop it. The last
	// 1/lostCallFraction of ReleaseTimeout is reserved for these calls, but at least
	// minLostCallReserve, which is enough for one or two polls on a busy machine. The reserve is
	// never more than half of ReleaseTimeout.
	lostCallFraction   = 8
	minLostCallReserve = 100 * time.Millisecond
	// lostCallRetryTime is how long lost calls for a shard are retried.
	lostCallRetryTime = time.Minute
)

// drainTerms returns the options of the drain of this node. The zero value means that the node is
// not drained, or that it stops.
func (m *hookMachine) drainTerms() ack.DrainOptions {
	if m.inputs.state == nil || m.inputs.stopping {
		return ack.DrainOptions{}
	}
	return m.inputs.state.Policy().DrainOptions[m.self]
}

// releaseTimeout returns the release timeout in force.
func (m *hookMachine) releaseTimeout() time.Duration {
	if drainTimeout := m.drainTerms().ReleaseTimeout; drainTimeout > 0 {
		return drainTimeout
	}
	return m.options.ReleaseTimeout
}

// attemptTimeout returns the timeout of one release call. An operator who sets the release
// timeout of a drain has a slow app, so one call may take half of it.
func (m *hookMachine) attemptTimeout() time.Duration {
	timeout := max(maxAttempt, m.drainTerms().ReleaseTimeout/2)
	return min(timeout, m.releaseTimeout())
}

// lostCallReserve returns the part of the release timeout that is reserved for lost calls.
func (m *hookMachine) lostCallReserve() time.Duration { return lostCallReserve(m.releaseTimeout()) }

// lostCallReserve returns the part of the given release timeout that is reserved for lost calls.
func lostCallReserve(releaseTimeout time.Duration) time.Duration {
	minimum := min(minLostCallReserve, releaseTimeout/2)
	return max(releaseTimeout/lostCallFraction, minimum)
}

// deliveryReserve returns the part of the release timeout that is reserved for delivering the
// release notes to the leader.
func (m *hookMachine) deliveryReserve() time.Duration {
	return ack.NoteDeliveryTime(m.releaseTimeout())
}

// startReleaseDeadline starts the time for releases when the last request of a moving shard has
// ended.
func (m *hookMachine) startReleaseDeadline(now time.Duration) {
	if m.releaseDeadline == 0 {
		m.releaseDeadline = now + m.releaseTimeout() - m.deliveryReserve()
		m.inputsChanged = true
	}
}

// startStopDeadline starts the time for a goodbye when the last request of the stopping node has
// ended. The next process of a node that restarts in place needs the release notes, so their
// delivery gets a part of that time.
func (m *hookMachine) startStopDeadline(now time.Duration) {
	if m.goodbyeDeadline != 0 {
		return
	}
	m.goodbyeDeadline = now + m.releaseTimeout()
	if m.inputs.restartsInPlace {
		m.goodbyeDeadline -= m.deliveryReserve()
	}
	m.appRefusesConns, m.inputsChanged = false, true
}

// callDeadline returns when the calls about a shard that the node gives up must end. Running calls
// are cancelled then, and no call starts until the node has acknowledged. An acknowledgement
// waits only for shards that move, and does not wait longer if the node also stops.
func (m *hookMachine) callDeadline(shard shardmap.Shard) time.Duration {
	moves := m.inputs.state.Proposed().Owner(shard) != m.self
	if moves {
		return min(m.acknowledgeDeadline(), m.stopDeadline())
	}
	return m.stopDeadline()
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

// wakeAt schedules an update at the given time, unless one is scheduled earlier.
func (m *hookMachine) wakeAt(at time.Duration) { m.nextUpdateAt = min(m.nextUpdateAt, at) }

// wakeAtDeadlines schedules updates for the ends of release calls and of lost calls.
func (m *hookMachine) wakeAtDeadlines(now time.Duration) {
	for _, lostCallsEnd := range [...]time.Duration{m.acknowledgeDeadline(), m.stopDeadline()} {
		releasesEnd := lostCallsEnd - m.lostCallReserve()
		for _, at := range [...]time.Duration{releasesEnd, lostCallsEnd} {
			if at > now {
				m.wakeAt(at)
			}
		}
	}
}
