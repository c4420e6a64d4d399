package clock

import (
	"sync"
	"time"
)

// alarm is the timer of a Scheduler. wait and stop may be called while another call is in
// progress.
type alarm interface {
	// set makes wait return in d and replaces the previous setting, even for a call of wait in
	// progress. busy is set if the process has other work to do.
	set(d time.Duration, busy bool)
	// wait blocks until the set time and returns true, once for each setting. It returns
	// false after stop.
	wait() bool
	stop()
}

// newAlarm returns an alarm that is not set. It uses a kernel timer if kernel is true and
// the platform supports it.
func newAlarm(kernel bool) alarm {
	if kernel {
		if a := newKernelAlarm(); a != nil {
			return a
		}
	}
	a := &runtimeAlarm{timer: time.NewTimer(time.Hour), stopped: make(chan struct{})}
	a.timer.Stop()
	return a
}

// runtimeAlarm uses a timer of the Go runtime.
type runtimeAlarm struct {
	timer   *time.Timer
	once    sync.Once
	stopped chan struct{} // closed by stop
}

// wakeUpCost is added to each wait, which otherwise is a whole number of milliseconds. The runtime
// waits for sockets in milliseconds, rounded down, and then waits again for the remainder. A wait
// of slightly more than 10 ms therefore ends at the first wake-up, and one of exactly 10 ms at the
// second.
const wakeUpCost = 60 * time.Microsecond

func (a *runtimeAlarm) set(delay time.Duration, _ bool) { a.timer.Reset(roundUp(delay)) }

// roundUp rounds a delay up to a duration that ends at the first wake-up of the runtime.
func roundUp(delay time.Duration) time.Duration {
	return max(delay+time.Millisecond-1, 0).Truncate(time.Millisecond) + wakeUpCost
}

func (a *runtimeAlarm) wait() bool {
	select {
	case <-a.stopped:
		return false
	case <-a.timer.C:
		return true
	}
}

func (a *runtimeAlarm) stop() {
	a.once.Do(func() {
		a.timer.Stop()
		close(a.stopped)
	})
}
