package heartbeat

import "time"

// RoundTrips contains the times of the last heartbeats, to measure the round-trip time of each one. Only one
// goroutine may use it. The zero value is ready for use.
type RoundTrips struct {
	sent [16]struct {
		beat uint64
		at   time.Duration
	}
	next int
}

// RecordSent records the time at which a heartbeat was sent.
func (t *RoundTrips) RecordSent(beat uint64, now time.Duration) {
	t.sent[t.next].beat, t.sent[t.next].at = beat, now
	t.next = (t.next + 1) % len(t.sent)
}

// Answered returns the time since heartbeat beat was sent. The second result is false if the heartbeat is too
// old or was already measured.
func (t *RoundTrips) Answered(beat uint64, now time.Duration) (time.Duration, bool) {
	for i := range t.sent {
		if s := &t.sent[i]; beat != 0 && s.beat == beat {
			s.beat = 0
			return now - s.at, true
		}
	}
	return 0, false
}
