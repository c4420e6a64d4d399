package clock

import (
	"testing"
	"time"
)

// The CPU time of a process does not show that the machine is too busy to run it.
func TestLateTickMakesProcessBusy(t *testing.T) {
	nothing := func() (time.Duration, bool) { return 0, true }
	for name, tt := range map[string]struct {
		late time.Duration
		used func() (time.Duration, bool)
		want bool
	}{
		"in time":           {late: time.Millisecond, used: nothing},
		"late":              {late: 40 * time.Millisecond, used: nothing, want: true},
		"nobody can say so": {used: func() (time.Duration, bool) { return 0, false }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := cpuLoad{}, time.Now()
			l.update(now, tt.late, tt.used)
			if got := l.isBusy(now.Add(busyPeriod - 1)); got != tt.want {
				t.Errorf("busy: %v, want %v", got, tt.want)
			}
			if l.isBusy(now.Add(busyPeriod)) {
				t.Error("process stays busy without a cause")
			}
		})
	}
}

// Each wake-up costs CPU time, so an interval below half of MaxInterval does not show how busy
// the process is.
func TestShortIntervalsAreNotMeasured(t *testing.T) {
	l, now := cpuLoad{}, time.Now()
	used := time.Duration(0)
	looks := func(after, more time.Duration) bool {
		now, used = now.Add(after), used+more
		l.update(now, 0, func() (time.Duration, bool) { return used, true })
		return l.isBusy(now)
	}
	looks(0, 0)
	for _, tt := range []struct {
		after, more time.Duration
		want        bool
	}{
		{MaxInterval / 50, time.Millisecond, false},
		{MaxInterval / 2, 0, false}, // a fiftieth in all
		{MaxInterval / 2, MaxInterval / 32, true},
	} {
		if got := looks(tt.after, tt.more); got != tt.want {
			t.Errorf("%v used in %v: busy %v, want %v", tt.more, tt.after, got, tt.want)
		}
	}
}

func TestSchedulerMeasuresDelayOfItsTimer(t *testing.T) {
	for late, want := range map[time.Duration]bool{-MaxInterval / 2: false, 0: false, maxTimerDelay: false, maxTimerDelay + 1: true} {
		now := time.Now()
		p := &Scheduler{CPUTime: func() (time.Duration, bool) { return 0, true }, alarm: &counted{}, lastTick: now.Add(-MaxInterval), nextTick: now.Add(-late)}
		if p.tick(now, true); p.isBusy(now) != want {
			t.Errorf("%v late: busy %v, want %v", late, !want, want)
		}
	}
}
