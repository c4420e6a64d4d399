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

// TestAnAlarmThatIsDueComes, and does at once: who asks for what is past is not left to sleep.
func TestAnAlarmThatIsDueComes(t *testing.T) {
	alarms(t, func(a alarming) {
		for _, d := range []time.Duration{0, -1, -time.Hour} {
			a.set(d, a.busy)
			if !a.waits() {
				a.Fatalf("set to come in %v, it did not", d)
			}
		}
	})
}

// TestAnAlarmIsKeptForWhoWaitsLater, whatever else the process has looked for since it came.
func TestAnAlarmIsKeptForWhoWaitsLater(t *testing.T) {
	alarms(t, func(a alarming) {
		a.set(time.Millisecond, a.busy)
		time.Sleep(10 * time.Millisecond)
		if !a.waits() {
			a.Error("it did not come to who waits for it only now")
		}
	})
}

// waits waits, and reports that it came.
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

// TestAnAlarmThatWasStoppedComesNoMore, also where it had come, and nobody has waited for it yet.
func TestAnAlarmThatWasStoppedComesNoMore(t *testing.T) {
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

// TestAWaitIsNoShorterThanWasAsked: who is woken too soon finds nothing due, and sleeps as long once
// more; nor longer than a millisecond more.
func TestAWaitIsNoShorterThanWasAsked(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, -1: 0, 0: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond,
		time.Millisecond + 1: 2 * time.Millisecond, 10*time.Millisecond - 1: 10 * time.Millisecond,
	} {
		if got := whole(d); got != want+wakeUp {
			t.Errorf("to wait for %v it waits for %v, want %v", d, got, want+wakeUp)
		}
	}
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
