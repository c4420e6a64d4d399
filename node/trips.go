package node

import (
	"time"

	"shardway/ack"
)

// send sends a heartbeat to the leader and records the time.
func (a *agent) send(hb ack.Heartbeat) {
	a.trips.went(hb.Number, a.clock.Precise())
	a.transmit(hb)
}

// trips contains the times of the last heartbeats, to measure the round-trip time of each one. Only the
// goroutine of agent.run uses it.
type trips struct {
	sent [16]struct {
		beat uint64
		at   time.Duration
	}
	next int
}

// went records the time at which a heartbeat was sent.
func (t *trips) went(beat uint64, now time.Duration) {
	t.sent[t.next].beat, t.sent[t.next].at = beat, now
	t.next = (t.next + 1) % len(t.sent)
}

// back returns the time since heartbeat beat was sent. The second result is false
// if the heartbeat is too old or was already measured.
func (t *trips) back(beat uint64, now time.Duration) (time.Duration, bool) {
	for i := range t.sent {
		if s := &t.sent[i]; beat != 0 && s.beat == beat {
			s.beat = 0
			return now - s.at, true
		}
	}
	return 0, false
}
