package clock

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAlarm goes by a timer of the kernel, which the runtime waits for as for a socket.
// A timer of the runtime's own wakes an idle process several times: its monitor thread too
// sleeps until then, and looks around for a while when it is woken.
//
// In a busy process it is the runtime's all the same, as the read's deadline: who has no
// moment to wait looks for timers whenever it changes goroutines, and for what came in
// every 10 ms.
type kernelAlarm struct {
	file *os.File
	raw  syscall.RawConn
	busy bool // the deadline is set, not the kernel's timer
}

func newKernelAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil // a sandbox may not have it
	}
	f := os.NewFile(uintptr(fd), "timer")
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{})
	}
	if err != nil { // the poller does not take it
		_ = f.Close()
		return nil
	}
	return &kernelAlarm{file: f, raw: raw}
}

func (a *kernelAlarm) set(d time.Duration, busy bool) {
	if busy {
		if !a.busy {
			a.arm(0)
		}
		_ = a.file.SetReadDeadline(time.Now().Add(whole(d))) // it is closed: nobody waits
	} else {
		if a.busy {
			_ = a.file.SetReadDeadline(time.Time{}) // likewise
		}
		a.arm(max(d, 1))
	}
	a.busy = busy
}

// arm sets the kernel's timer; 0: it never ends. What had come of it is forgotten.
func (a *kernelAlarm) arm(d time.Duration) {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	_ = a.raw.Control(func(fd uintptr) { // likewise
		// As in read, the scheduler need not hear of a call that never waits.
		_, _, _ = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&at)), 0, 0, 0) //nolint:gosec // as package unix does it
	})
}

// wait looks at the timer before it waits, as the runtime's poller forgets at the beginning of
// each wait what it had seen, and not after: nothing else wakes it, and what is not read is
// gone with the next arm.
func (a *kernelAlarm) wait() bool {
	var times uint64
	looked := false
	err := a.raw.Read(func(fd uintptr) bool {
		if looked {
			return true
		}
		looked = true
		_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&times)), unsafe.Sizeof(times)) //nolint:gosec // as package unix does it
		return errno != unix.EAGAIN
	})
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}

func (a *kernelAlarm) stop() { _ = a.file.Close() }
