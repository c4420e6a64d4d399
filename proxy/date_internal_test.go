package proxy

import (
	"testing"
	"time"
)

// The clock by which unanswered requests are cut was the machine's date: when that
// was set five minutes ahead, all of them were. A test cannot set it; but a clock
// that counts from 1970 is one that can be set, and one that counts from its start
// is not. The date in answers is the machine's all the same.
func TestAgesIgnoreWallClock(t *testing.T) {
	s := New(Options{})
	defer func() { _ = s.Shutdown(t.Context()) }()
	if got := s.clock.Now(); got <= 0 || got > time.Minute {
		t.Errorf("a clock just started shows %v, want a little above zero", got)
	}
	before := s.clock.Now()
	s.tick()
	if now := s.clock.Now(); now < before || now > before+time.Minute {
		t.Errorf("it went from %v to %v within a moment", before, now)
	}
	date, err := time.Parse(time.RFC1123, string(s.date()))
	if d := time.Since(date); err != nil || d < -time.Minute || d > time.Minute {
		t.Errorf("the date is %q (%v)", s.date(), err)
	}
}
