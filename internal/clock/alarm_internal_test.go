package clock

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// alarming is a test of one kind of alarm in one kind of process.
type alarming struct {
	*testing.T
	alarm
	busy bool
}

// alarms calls f with each kind.
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

func TestAnAlarmComesOnceForEachTimeThatWasSet(t *testing.T) {
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

func TestAnAlarmThatIsSetEarlierComesDuringAWait(t *testing.T) {
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

// TestAnAlarmForgetsATimeThatWasReplaced, also one that has come and that nobody waited for.
func TestAnAlarmForgetsATimeThatWasReplaced(t *testing.T) {
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

// TestAPulseBeatsByTheKernel, at rest, until it is told to end.
func TestAPulseBeatsByTheKernel(t *testing.T) {
	p := Pulse{Kernel: true, Used: func() (time.Duration, bool) { return 0, true }}
	b := p.Asked()
	defer b.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	for range 5 {
		b.Within(EveryBeat)
		<-b.C
	}
	cancel()
	<-ended
}
