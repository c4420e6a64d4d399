package agent

import (
	"time"

	"shardway/ack"
)

// maxSentHeartbeats is how many sent heartbeats a LeaseHolder remembers. A response to an older one
// grants nothing.
const maxSentHeartbeats = 64

// LeaseHolder holds the lease of a node: its permission to admit requests for its own shards. It
// only uses the durations in leaders' responses, and has no timing of its own. The zero LeaseHolder
// is not usable; see NewLeaseHolder.
type LeaseHolder struct {
	boot uint64 // under which the node sends heartbeats

	// Heartbeats of this boot.
	lastNumber     uint64                           // of the newest heartbeat; zero means none
	lastAnswered   uint64                           // number of the newest heartbeat with a response; zero means none
	sentHeartbeats [maxSentHeartbeats]sentHeartbeat // ring: heartbeat n is element n%maxSentHeartbeats
	echo           ack.Echo                         // the newest response

	// The current or the last lease.
	hasLease      bool          // false from the end of the lease or a pause on
	leaseEnd      time.Duration // by the clock of this node
	leaseLength   time.Duration // full length of the lease that ends at leaseEnd
	term          uint64        // the newest term whose leader granted the lease
	abortAt       time.Duration // when its requests must be aborted, if the lease has ended by then
	abortReported bool          // AbortDue has returned true for this lease

	lastTick time.Duration // when the process was last known to run
}

// sentHeartbeat is one heartbeat of this boot. The zero value means none.
type sentHeartbeat struct {
	number uint64
	sentAt time.Duration
}

// NewLeaseHolder returns a LeaseHolder without a lease. The caller must call Tick immediately.
func NewLeaseHolder(boot uint64, now time.Duration) *LeaseHolder {
	return &LeaseHolder{boot: boot, lastTick: now, abortReported: true}
}

// Boot returns the boot under which the node sends heartbeats.
func (h *LeaseHolder) Boot() uint64 { return h.boot }

// Reboot raises the boot within the same process. It voids the lease and forgets earlier
// heartbeats. No request admitted under the old boot may still be running, because the leader
// infers from a new boot that the old one has stopped serving.
func (h *LeaseHolder) Reboot(boot uint64) {
	if boot <= h.boot {
		return
	}
	h.Void()
	h.boot, h.lastNumber, h.lastAnswered, h.echo = boot, 0, 0, ack.Echo{}
	h.sentHeartbeats = [maxSentHeartbeats]sentHeartbeat{}
}

// NextHeartbeat records the send time of the next heartbeat, from which the resulting lease counts.
// It returns the number and the echo to send.
func (h *LeaseHolder) NextHeartbeat(now time.Duration) (number uint64, echo ack.Echo) {
	h.lastNumber++
	h.sentHeartbeats[h.lastNumber%maxSentHeartbeats] = sentHeartbeat{h.lastNumber, now}
	return h.lastNumber, h.echo
}

// HandleAnswer applies a response of a leader. raftTerm is the Raft term of the node, read after the response
// arrived. It returns true if the response counted. A response to another boot, or of a term
// below raftTerm, does not count.
func (h *LeaseHolder) HandleAnswer(now time.Duration, raftTerm uint64, answer ack.Answer) bool {
	h.Tick(now)
	if answer.Boot != h.boot || answer.Term < raftTerm || answer.Refusal != 0 {
		return false
	}
	isNewest := answer.Term > h.echo.Term || answer.Term == h.echo.Term && answer.Number > h.echo.Number
	if isNewest {
		h.echo = ack.Echo{Term: answer.Term, Number: answer.Number}
	}
	h.markAnswered(answer.HeartbeatNumber)
	if answer.ServeFor > 0 {
		h.extendLease(now, answer)
	}
	return true
}

// extendLease applies the lease that a response contains. The lease counts from when the node sent
// the heartbeat. A lease is never shortened, because the leader that granted it waits for its end.
func (h *LeaseHolder) extendLease(now time.Duration, answer ack.Answer) {
	sent := h.sentHeartbeats[answer.HeartbeatNumber%maxSentHeartbeats]
	if sent.number != answer.HeartbeatNumber {
		return // too old: its send time is no longer known
	}
	leaseEnd := sent.sentAt + answer.ServeFor
	if leaseEnd <= now {
		return
	}
	if !h.hasLease || answer.Term > h.term {
		h.term = answer.Term
	}
	if !h.hasLease || leaseEnd > h.leaseEnd {
		h.leaseEnd, h.hasLease, h.abortReported = leaseEnd, true, false
		h.abortAt, h.leaseLength = sent.sentAt+answer.AbortAfter, answer.LeaseDuration
	}
}

// markAnswered records that a heartbeat was answered.
func (h *LeaseHolder) markAnswered(number uint64) {
	number = min(number, h.lastNumber) // a response can name a heartbeat that was never sent
	h.lastAnswered = max(h.lastAnswered, number)
}

// oldestUnanswered returns when the oldest remembered heartbeat without a later answer was
// sent. ok is false if there is none.
func (h *LeaseHolder) oldestUnanswered() (sentAt time.Duration, ok bool) {
	if h.lastAnswered >= h.lastNumber {
		return 0, false
	}
	oldestRemembered := h.lastNumber - min(h.lastNumber, maxSentHeartbeats-1)
	number := max(h.lastAnswered+1, oldestRemembered)
	return h.sentHeartbeats[number%maxSentHeartbeats].sentAt, true
}

// Tick ends an expired lease. A gap of more than a quarter of the lease since the last Tick means
// that the process was paused, and voids the lease until it is renewed.
func (h *LeaseHolder) Tick(now time.Duration) {
	wasPaused := now-h.lastTick > h.leaseLength/4
	h.lastTick = now
	if wasPaused || now >= h.leaseEnd {
		h.hasLease = false
	}
}

// MarkRunning records that the process was running until now without a Tick, so the next Tick
// detects no pause. A lease that has expired still ends.
func (h *LeaseHolder) MarkRunning(now time.Duration) { h.lastTick = max(h.lastTick, now) }

// Void ends the lease immediately.
func (h *LeaseHolder) Void() { h.hasLease = false }

// LeaseEnd returns the end of the lease. hasLease is false without one.
func (h *LeaseHolder) LeaseEnd() (end time.Duration, hasLease bool) { return h.leaseEnd, h.hasLease }

// Term returns the term of the leader that granted the current lease, the newest if there are
// several. Zero means no lease.
func (h *LeaseHolder) Term() uint64 {
	if !h.hasLease {
		return 0
	}
	return h.term
}

// Remaining returns the rest of the lease, zero without one.
func (h *LeaseHolder) Remaining(now time.Duration) time.Duration {
	if !h.hasLease {
		return 0
	}
	return max(h.leaseEnd-now, 0)
}

// AbortDue returns true, once for each lease that ended, when the caller must abort all running
// requests, because another node may own the shards soon.
func (h *LeaseHolder) AbortDue(now time.Duration) bool {
	if h.hasLease || h.abortReported || now < h.abortAt {
		return false
	}
	h.abortReported = true
	return true
}
