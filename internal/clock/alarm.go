package clock

import (
	"sync"
	"time"
)

// alarm is what a Pulse waits by. wait and stop may be called while another call runs.
type alarm interface {
	// set has wait return in d, in place of what was set before, a wait under way
	// included. busy: whatever else the process has to do.
	set(d time.Duration, busy bool)
	// wait returns true once for each time that was set and has come, and false after stop.
	wait() bool
	stop()
}

// newAlarm returns one that is not set, of the kernel's if that is asked for and there is one.
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

// runtimeAlarm goes by a timer of the runtime.
type runtimeAlarm struct {
	timer   *time.Timer
	once    sync.Once
	stopped chan struct{} // latch
}

// wakeUp is added to each wait, which is whole milliseconds otherwise: the runtime waits
// for sockets in those, rounded down, and once more for what is left. A wait of a little
// more than ten ends at its first wake-up, one of exactly ten at its second.
const wakeUp = 60 * time.Microsecond

func (a *runtimeAlarm) set(d time.Duration, _ bool) { a.timer.Reset(whole(d)) }

// whole returns a wait that is no shorter than d and ends at its first wake-up.
func whole(d time.Duration) time.Duration {
	return max(d+time.Millisecond-1, 0).Truncate(time.Millisecond) + wakeUp
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
