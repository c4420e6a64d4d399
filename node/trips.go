package node

import (
	"time"

	"shardway/ack"
)

// send sends a heartbeat, and notes when.
func (a *agent) send(hb ack.Heartbeat) {
	a.trips.went(hb.Number, a.clock.Precise())
	a.transmit(hb)
}

// trips are the last heartbeats that were sent, so that each is timed once. The agent's
// goroutine has them.
type trips struct {
	sent [16]struct {
		beat uint64
		at   time.Duration
	}
	next int
}

func (t *trips) went(beat uint64, now time.Duration) {
	t.sent[t.next].beat, t.sent[t.next].at = beat, now
	t.next = (t.next + 1) % len(t.sent)
}

// back returns how long ago a heartbeat was sent, if that was not asked before.
func (t *trips) back(beat uint64, now time.Duration) (time.Duration, bool) {
	for i := range t.sent {
		if s := &t.sent[i]; beat != 0 && s.beat == beat {
			s.beat = 0
			return now - s.at, true
		}
	}
	return 0, false
}
