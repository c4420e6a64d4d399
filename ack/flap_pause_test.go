package ack_test

import (
	"testing"
	"time"
)

// A node that sends heartbeats and never acknowledges may return at once the first time. Each
// further time within ten minutes it must wait longer.
func TestNodeThatMissesAcknowledgementsReturnsLaterEachTime(t *testing.T) {
	s := serving(t, "a", "b", "c")
	b, c := s.actor("b"), s.actor("c")
	for i, least := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		c.held = true
		b.weight++ // a reason for a round
		s.until("c is dropped", func() bool { return s.state.IsDropped("c") })
		dropped := s.now
		s.until("the others go on", func() bool { return !s.state.HasOpenProposal() })
		if got, _ := s.state.Drop("c"); got.ConsecutiveDrops != uint32(i+1) {
			t.Errorf("drop %d: %d consecutive drops, want %d", i, got.ConsecutiveDrops, i+1)
		}
		c.held = false
		s.until("c is back", func() bool { return s.serves("c") })
		// Its shards can be taken only when its lease has long run out.
		if took := s.now - dropped; took < least || took > max(least, s.timing.DeadAfter)+time.Second {
			t.Errorf("drop %d: back after %v, want %v to a second more", i, took, max(least, s.timing.DeadAfter))
		}
	}
}
