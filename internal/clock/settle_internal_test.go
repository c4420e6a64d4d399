package clock

import (
	"testing"
	"time"
)

// counted is an alarm that counts how often it is set.
type counted struct{ n int }

func (c *counted) set(time.Duration, bool) { c.n++ }
func (*counted) wait() bool                { return false }
func (*counted) stop()                     {}

// TestTheTimerIsSetOnceForABeat: to set it is a system call, and each of those that a beat wakes
// says when it wants to be woken again.
func TestTheTimerIsSetOnceForABeat(t *testing.T) {
	p := &Pulse{Used: func() (time.Duration, bool) { return 0, true }}
	one, other := p.Asked(), p.Asked()
	now := time.Now()
	a := &counted{}
	p.alarm, p.last, p.next = a, now, now
	wants := func(n int, after string) {
		t.Helper()
		if a.n != n {
			t.Errorf("set %d times after %s, want %d", a.n, after, n)
		}
	}
	p.beat(now, true)
	one.Within(30 * time.Millisecond)
	other.Within(20 * time.Millisecond)
	wants(0, "those that were woken have said when they want to be again")
	if p.nearly(now.Add(2 * EveryBeat)) {
		t.Error("it beats once more before the timer is set")
	}
	p.settle()
	wants(1, "they have run")
	other.Within(20 * time.Millisecond)
	wants(1, "the same was said again")
	other.Within(15 * time.Millisecond)
	wants(2, "one wants to be woken sooner")
	p.beat(now, false)
	wants(3, "a beat that nobody settles")
}

// In a busy process those that were woken may be long in coming to run: the timer does not wait.
func TestTheTimerOfABusyPulseWaitsForNobody(t *testing.T) {
	p, now := &Pulse{}, time.Now()
	p.WhileBusy(EveryBeat) // who wants to know counts it as busy
	a := &counted{}
	p.alarm, p.last, p.next = a, now, now
	if p.beat(now, true); a.n != 1 {
		t.Errorf("set %d times, want once", a.n)
	}
}
