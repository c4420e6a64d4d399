package ack

import "time"

// sentKept is how many sent heartbeats a Holder remembers. An answer to an older
// one grants nothing.
const maxSent = 64

// Holder keeps a node's lease: its permission to admit requests for its own
// shards. It obeys the answers of the leaders and knows no timing of its own. The
// zero Holder is not usable; see NewHolder.
type Holder struct {
	boot uint64

	lastNumber   uint64
	lastAnswered uint64 // the newest heartbeat that was answered
	sent         [maxSent]sentMessage
	echo         Echo

	until       time.Duration // the lease runs until here
	term        uint64        // the newest term whose leader granted one that runs
	leaseLength time.Duration // the lease that until is the end of, as it was before it shrank
	held        bool          // a lease is in force; false from its end or a pause on
	cutBy       time.Duration // what it admitted must be cut by then, if it has ended
	cutDone     bool          // it has been cut since
	lastTick    time.Duration
}

type sentMessage struct {
	number uint64
	at     time.Duration
}

// NewHolder returns a Holder without a lease. Its first tick must follow at once.
func NewHolder(boot uint64, now time.Duration) *Holder {
	return &Holder{boot: boot, lastTick: now, cutDone: true}
}

// Boot returns the boot under which the node sends heartbeats.
func (h *Holder) Boot() uint64 { return h.boot }

// Reboot gives the node a higher boot within the same process. Its lease is void
// and its old heartbeats are forgotten. Nothing that was admitted under the old
// boot may still run: the leader takes a new boot as the end of the old one.
func (h *Holder) Reboot(boot uint64) {
	if boot <= h.boot {
		return
	}
	h.Void()
	h.boot, h.lastNumber, h.lastAnswered, h.echo = boot, 0, 0, Echo{}
	h.sent = [maxSent]sentMessage{}
}

// Beat numbers the next heartbeat and notes when it is sent: the lease that
// answers it counts from here. It returns the number and the echo to send.
func (h *Holder) NextHeartbeat(now time.Duration) (number uint64, echo Echo) {
	h.lastNumber++
	h.sent[h.lastNumber%maxSent] = sentMessage{h.lastNumber, now}
	return h.lastNumber, h.echo
}

// Answered takes an answer. raftTerm is the node's own Raft term, read after the
// answer arrived. It reports whether the answer counted; one to another boot, or
// of a term below raftTerm, does not.
func (h *Holder) Answered(now time.Duration, raftTerm uint64, a Answer) bool {
	h.Tick(now)
	if a.Boot != h.boot || a.Term < raftTerm || a.Refusal != 0 {
		return false
	}
	if a.Term > h.echo.Term || a.Term == h.echo.Term && a.Number > h.echo.Number {
		h.echo = Echo{a.Term, a.Number}
	}
	h.markAnswered(a.Beat)
	s := h.sent[a.Beat%maxSent]
	if s.number != a.Beat || a.Serve <= 0 {
		return true
	}
	// Leases only ever grow: what a leader granted, it waits for.
	until := s.at + a.Serve
	if until <= now {
		return true
	}
	if !h.held || a.Term > h.term {
		h.term = a.Term
	}
	if !h.held || until > h.until {
		h.until, h.held, h.cutDone = until, true, false
		h.cutBy, h.leaseLength = s.at+a.Cut, a.Lease
	}
	return true
}

// reached notes that a heartbeat was answered.
func (h *Holder) markAnswered(beat uint64) {
	h.lastAnswered = max(h.lastAnswered, min(beat, h.lastNumber))
}

// waiting returns when the oldest heartbeat was sent of those that no answer has come
// to since, as far as they are remembered.
func (h *Holder) oldestUnanswered() (since time.Duration, ok bool) {
	if h.lastAnswered >= h.lastNumber {
		return 0, false
	}
	return h.sent[max(h.lastAnswered+1, h.lastNumber-min(h.lastNumber, maxSent-1))%maxSent].at, true
}

// Tick ends a lease that has run out. A jump of more than a quarter lease since
// the last tick means that the node was paused: the lease is void until renewed.
func (h *Holder) Tick(now time.Duration) {
	paused := now-h.lastTick > h.leaseLength/4
	h.lastTick = now
	if h.held && (paused || now >= h.until) {
		h.held = false
	}
}

// Ran tells that the process has run until now, though nobody has told the Holder the
// time: the next tick sees no pause in that. A lease that has run out meanwhile has ended
// all the same.
func (h *Holder) RanUntil(now time.Duration) { h.lastTick = max(h.lastTick, now) }

// Void ends the lease at once, whatever was granted.
func (h *Holder) Void() { h.held = false }

// Until returns when the lease ends, and false without one.
func (h *Holder) Until() (time.Duration, bool) { return h.until, h.held }

// Term returns the term of the leader whose lease is in force, the newest one if
// several granted it; zero without a lease.
func (h *Holder) Term() uint64 {
	if !h.held {
		return 0
	}
	return h.term
}

// Left returns how much of the lease is left, zero without one.
func (h *Holder) Remaining(now time.Duration) time.Duration {
	if !h.held {
		return 0
	}
	return max(h.until-now, 0)
}

// CutDue reports, once for each lease that ended, that what the node still runs
// must be cut now: soon another node may own its shards.
func (h *Holder) CutDue(now time.Duration) bool {
	if h.held || h.cutDone || now < h.cutBy {
		return false
	}
	h.cutDone = true
	return true
}
