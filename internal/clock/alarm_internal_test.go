package clock

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// alarming is a test for each kind of alarm, in an idle and in a busy process.
type alarming struct {
	*testing.T
	alarm
	busy bool
}

// alarms runs f for each kind of alarm.
func alarms(t *testing.T, f func(a alarming)) {
	t.Helper()
	for name, kernel := range map[string]bool{"runtime": false, "kernel": true} {
		for load, busy := range map[string]bool{"at rest": false, "busy": true} {
			t.Run(name+", "+load, func(t *testing.T) {
				a := newAlarm(kernel)
				defer a.stop()
				f(alarming{t, a, busy})
			})
		}
	}
}

func TestAlarmFiresOncePerSetting(t *testing.T) {
	alarms(t, func(a alarming) {
		for _, b := range []bool{a.busy, a.busy, !a.busy, a.busy, !a.busy, !a.busy} {
			began := time.Now()
			a.set(3*time.Millisecond, b)
			if !a.wait() {
				a.Fatal("it was stopped, want it to come")
			}
			if took := time.Since(began); took < 3*time.Millisecond {
				a.Errorf("it came after %v, want 3ms at least", took)
			}
		}
	})
}

func TestSettingEarlierTimeEndsRunningWait(t *testing.T) {
	alarms(t, func(a alarming) {
		for _, before := range []bool{a.busy, !a.busy} {
			a.set(time.Hour, before)
			came := make(chan bool)
			go func() { came <- a.wait() }()
			a.set(time.Millisecond, a.busy)
			if !<-came {
				a.Fatal("it was stopped, want it to come")
			}
		}
	})
}

// A replaced setting must not fire, even if it had expired before any call of wait.
func TestReplacedSettingDoesNotFire(t *testing.T) {
	alarms(t, func(a alarming) {
		a.set(1, a.busy)
		for end := time.Now().Add(2 * time.Millisecond); time.Now().Before(end); {
			runtime.Gosched()
		}
		a.set(time.Hour, a.busy)
		waited := make(chan bool)
		go func() { waited <- a.wait() }()
		a.stop()
		if <-waited {
			a.Error("it came, want the time before the last to be forgotten")
		}
	})
}

func TestAlarmSetInThePastFiresAtOnce(t *testing.T) {
	alarms(t, func(a alarming) {
		for _, d := range []time.Duration{0, -1, -time.Hour} {
			a.set(d, a.busy)
			if !a.waits() {
				a.Fatalf("set to come in %v, it did not", d)
			}
		}
	})
}

// The expiry must be available to a later wait, even if the process has polled for other
// events since.
func TestExpiryIsKeptUntilWait(t *testing.T) {
	alarms(t, func(a alarming) {
		a.set(time.Millisecond, a.busy)
		time.Sleep(10 * time.Millisecond)
		if !a.waits() {
			a.Error("a later wait did not get the expiry")
		}
	})
}

// waits calls wait and reports whether it returned true.
func (a alarming) waits() bool {
	came := make(chan bool, 1)
	go func() { came <- a.wait() }() // ends with the alarm
	select {
	case ok := <-came:
		return ok
	case <-time.After(10 * time.Second):
		return false
	}
}

// A stopped alarm must not fire, even if it had expired before any call of wait.
func TestStoppedAlarmDoesNotFire(t *testing.T) {
	alarms(t, func(a alarming) {
		a.set(1, a.busy)
		time.Sleep(5 * time.Millisecond)
		a.stop()
		for range 20 {
			if a.wait() {
				a.Fatal("it came, want it to be stopped")
			}
		}
	})
}

// A wait that ends too early finds nothing due and has to wait again, so it must not be
// shorter than requested. It must also not be more than a millisecond longer.
func TestRoundUpAddsAtMostOneMillisecond(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, -1: 0, 0: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond,
		time.Millisecond + 1: 2 * time.Millisecond, 10*time.Millisecond - 1: 10 * time.Millisecond,
	} {
		if got := roundUp(d); got != want+wakeUpCost {
			t.Errorf("roundUp(%v) = %v, want %v", d, got, want+wakeUpCost)
		}
	}
}

func TestSchedulerTicksWithKernelTimer(t *testing.T) {
	p := Scheduler{UseKernelTimer: true, CPUTime: func() (time.Duration, bool) { return 0, true }}
	b := p.NewOnDemandTicker()
	defer b.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	for range 5 {
		b.TickWithin(MinInterval)
		<-b.C
	}
	cancel()
	<-ended
}
