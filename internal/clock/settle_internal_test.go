package clock

import (
	"testing"
	"time"
)

// counted is an alarm that counts calls of set.
type counted struct{ n int }

func (c *counted) set(time.Duration, bool) { c.n++ }
func (*counted) wait() bool                { return false }
func (*counted) stop()                     {}

// Setting the alarm is a system call, and each woken goroutine may request its next
// delivery.
func TestAlarmIsSetOncePerTick(t *testing.T) {
	p := &Scheduler{CPUTime: func() (time.Duration, bool) { return 0, true }}
	one, other := p.NewOnDemandTicker(), p.NewOnDemandTicker()
	now := time.Now()
	a := &counted{}
	p.alarm, p.lastTick, p.nextTick = a, now, now
	wants := func(n int, after string) {
		t.Helper()
		if a.n != n {
			t.Errorf("set %d times after %s, want %d", a.n, after, n)
		}
	}
	p.tick(now, true)
	one.TickWithin(30 * time.Millisecond)
	other.TickWithin(20 * time.Millisecond)
	wants(0, "those that were woken have said when they want to be again")
	if p.tickIsNear(now.Add(2 * MinInterval)) {
		t.Error("Early ticked again before the alarm was set")
	}
	p.setAlarmAfterTick()
	wants(1, "they have run")
	other.TickWithin(20 * time.Millisecond)
	wants(1, "the same was said again")
	other.TickWithin(15 * time.Millisecond)
	wants(2, "one wants to be woken sooner")
	p.tick(now, false)
	wants(3, "a beat that nobody settles")
}

// In a busy process the woken goroutines may take long to run, so the alarm does not wait
// for them.
func TestBusySchedulerSetsAlarmAtOnce(t *testing.T) {
	p, now := &Scheduler{}, time.Now()
	p.NewBusyTicker(MinInterval) // without Used the process counts as busy
	a := &counted{}
	p.alarm, p.lastTick, p.nextTick = a, now, now
	if p.tick(now, true); a.n != 1 {
		t.Errorf("set %d times, want once", a.n)
	}
}
