package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
)

// An idle Scheduler has set its timer for a long wait when a Ticker with a short interval is
// added.
func TestNewBeatShortensRunningWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := clock.Scheduler{CPUTime: func() (time.Duration, bool) { return 0, true }}
		defer runScheduler(t, &p)()
		next(&p)
		time.Sleep(3 * clock.MinInterval)
		began := time.Now()
		b := p.NewTicker(2 * clock.MinInterval)
		defer b.Stop()
		if <-b.C; time.Since(began) > 3*clock.MinInterval {
			t.Errorf("Ticker with interval %v first came after %v", 2*clock.MinInterval, time.Since(began))
		}
	})
}

// A leader receives hundreds of messages per second and calls Early for each. That must not
// deliver ticks more often than MinInterval.
func TestEarlyKeepsMinimumInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Scheduler
		defer p.NewBusyTicker(clock.MinInterval).Stop()
		defer runScheduler(t, &p)()
		next(&p)
		began, n := p.Last(), 0
		for last := began; time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
			if p.TickEarly(); !p.Last().Equal(last) {
				last = p.Last()
				n++
			}
		}
		if most := int(time.Second / clock.MinInterval); n > most {
			t.Errorf("%d ticks in a second, want at most %d", n, most)
		}
	})
}

// A Scheduler ticks only while Run runs. It ticks again if Run is called again, even at the
// same time.
func TestSchedulerTicksOnlyWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := clock.Scheduler{CPUTime: func() (time.Duration, bool) { return 0, true }}
		runScheduler(t, &p)()
		stop := runScheduler(t, &p)
		began := time.Now()
		time.Sleep(clock.MaxInterval + time.Millisecond)
		synctest.Wait()
		if p.Last().Before(began.Add(clock.MaxInterval)) {
			t.Errorf("no tick %v after Run was called again", clock.MaxInterval)
		}
		stop()
		last := p.Last()
		time.Sleep(clock.MaxInterval - 1)
		if p.TickEarly(); !p.Last().Equal(last) {
			t.Error("tick after Run has returned")
		}
	})
}

// After a pause of the process the missed ticks are not delivered.
func TestMissedTicksAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Scheduler
		b := p.NewTicker(2 * clock.MinInterval)
		defer b.Stop()
		time.Sleep(10 * time.Second)
		defer runScheduler(t, &p)()
		n := 0
		for end := time.After(time.Second); ; n++ {
			select {
			case <-b.C:
				continue
			case <-end:
			}
			break
		}
		if most := int(time.Second / (2 * clock.MinInterval)); n > most+1 {
			t.Errorf("%d ticks in the second after a pause, want %d", n, most)
		}
	})
}
