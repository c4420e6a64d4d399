package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
)

// TestWhoComesLaterIsNotKeptWaiting: a process at rest has set its timer for a while.
func TestWhoComesLaterIsNotKeptWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := clock.Pulse{Used: func() (time.Duration, bool) { return 0, true }}
		defer beating(t, &p)()
		next(&p)
		time.Sleep(3 * clock.EveryBeat)
		began := time.Now()
		b := p.Every(2 * clock.EveryBeat)
		defer b.Stop()
		if <-b.C; time.Since(began) > 3*clock.EveryBeat {
			t.Errorf("what comes every %v came first after %v", 2*clock.EveryBeat, time.Since(began))
		}
	})
}

// TestABusyPulseIsNotHurried: a leader hears of others hundreds of times a second, and each time
// would wake everybody.
func TestABusyPulseIsNotHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Pulse
		defer p.WhileBusy(clock.EveryBeat).Stop()
		defer beating(t, &p)()
		next(&p)
		began, n := p.Last(), 0
		for last := began; time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
			if p.Early(); !p.Last().Equal(last) {
				last = p.Last()
				n++
			}
		}
		if most := int(time.Second / clock.EveryBeat); n > most {
			t.Errorf("it has beaten %d times in a second, want %d at most", n, most)
		}
	})
}

// TestAPulseBeatsWhileItRuns, and no longer; and when it runs once more, also in the same moment.
func TestAPulseBeatsWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := clock.Pulse{Used: func() (time.Duration, bool) { return 0, true }}
		beating(t, &p)()
		stop := beating(t, &p)
		began := time.Now()
		time.Sleep(clock.AtRest + time.Millisecond)
		synctest.Wait()
		if p.Last().Before(began.Add(clock.AtRest)) {
			t.Errorf("it has not beaten %v after it was run again", clock.AtRest)
		}
		stop()
		last := p.Last()
		time.Sleep(clock.AtRest - 1)
		if p.Early(); !p.Last().Equal(last) {
			t.Error("it beats when it does not run")
		}
	})
}

// TestWhatWasMissedIsNotMadeUpFor: after a pause of the process nobody is woken more often.
func TestWhatWasMissedIsNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Pulse
		b := p.Every(2 * clock.EveryBeat)
		defer b.Stop()
		time.Sleep(10 * time.Second)
		defer beating(t, &p)()
		n := 0
		for end := time.After(time.Second); ; n++ {
			select {
			case <-b.C:
				continue
			case <-end:
			}
			break
		}
		if most := int(time.Second / (2 * clock.EveryBeat)); n > most+1 {
			t.Errorf("%d beats in the second after a pause, want %d", n, most)
		}
	})
}
