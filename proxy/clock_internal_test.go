package proxy

import (
	"testing"
	"time"
)

// Timeouts do not depend on the wall clock. Once they did, and when the date was set five minutes
// ahead, all unanswered requests were aborted. A test cannot set the date, but a clock that counts
// from 1970 can be set, and one that counts from its start cannot. The Date of responses is the wall
// clock nevertheless.
func TestAgesIgnoreWallClock(t *testing.T) {
	s := New(Options{})
	defer func() { _ = s.Shutdown(t.Context()) }()
	if got := s.clock.Now(); got <= 0 || got > time.Minute {
		t.Errorf("a clock just started shows %v, want a little above zero", got)
	}
	before := s.clock.Now()
	s.clock.Tick()
	if now := s.clock.Now(); now < before || now > before+time.Minute {
		t.Errorf("it went from %v to %v within a moment", before, now)
	}
	date, err := time.Parse(time.RFC1123, string(s.clock.Date()))
	if d := time.Since(date); err != nil || d < -time.Minute || d > time.Minute {
		t.Errorf("the date is %q (%v)", s.clock.Date(), err)
	}
}
