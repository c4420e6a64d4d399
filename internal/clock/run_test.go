package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
)

// An idle Pulse has set its timer for a long wait when a Beat with a short interval is
// added.
func TestNewBeatShortensRunningWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := clock.Pulse{Used: func() (time.Duration, bool) { return 0, true }}
		defer runPulse(t, &p)()
		next(&p)
		time.Sleep(3 * clock.EveryBeat)
		began := time.Now()
		b := p.Every(2 * clock.EveryBeat)
		defer b.Stop()
		if <-b.C; time.Since(began) > 3*clock.EveryBeat {
			t.Errorf("Beat with interval %v first came after %v", 2*clock.EveryBeat, time.Since(began))
		}
	})
}

// A leader receives hundreds of messages per second and calls Early for each. That must not
// deliver ticks more often than EveryBeat.
func TestEarlyKeepsMinimumInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Pulse
		defer p.WhileBusy(clock.EveryBeat).Stop()
		defer runPulse(t, &p)()
		next(&p)
		began, n := p.Last(), 0
		for last := began; time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
			if p.Early(); !p.Last().Equal(last) {
				last = p.Last()
				n++
			}
		}
		if most := int(time.Second / clock.EveryBeat); n > most {
			t.Errorf("%d ticks in a second, want at most %d", n, most)
		}
	})
}

// A Pulse ticks only while Run runs. It ticks again if Run is called again, even at the
// same time.
func TestPulseTicksOnlyWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := clock.Pulse{Used: func() (time.Duration, bool) { return 0, true }}
		runPulse(t, &p)()
		stop := runPulse(t, &p)
		began := time.Now()
		time.Sleep(clock.AtRest + time.Millisecond)
		synctest.Wait()
		if p.Last().Before(began.Add(clock.AtRest)) {
			t.Errorf("no tick %v after Run was called again", clock.AtRest)
		}
		stop()
		last := p.Last()
		time.Sleep(clock.AtRest - 1)
		if p.Early(); !p.Last().Equal(last) {
			t.Error("tick after Run has returned")
		}
	})
}

// After a pause of the process the missed ticks are not delivered.
func TestMissedTicksAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Pulse
		b := p.Every(2 * clock.EveryBeat)
		defer b.Stop()
		time.Sleep(10 * time.Second)
		defer runPulse(t, &p)()
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
			t.Errorf("%d ticks in the second after a pause, want %d", n, most)
		}
	})
}
