package clock

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAlarm uses a timerfd, which the runtime polls like a socket. A runtime timer would wake an idle process several
// times, because the runtime's monitor thread sleeps until the same time and then polls for a while.
//
// In a busy process, kernelAlarm uses a read deadline instead, which is a runtime timer. A busy runtime checks its
// timers at every goroutine switch, but its network poller only every 10 ms.
type kernelAlarm struct {
	file    *os.File
	rawConn syscall.RawConn
	busy    bool // the read deadline is set instead of the timerfd
}

// newKernelAlarm returns an alarm that uses a timerfd. It returns nil if the system does not permit timerfds.
func newKernelAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil // a sandbox may forbid timerfd
	}
	file := os.NewFile(uintptr(fd), "timer")
	raw, err := file.SyscallConn()
	if err == nil {
		err = file.SetReadDeadline(time.Time{})
	}
	if err != nil { // the runtime cannot poll it
		_ = file.Close()
		return nil
	}
	return &kernelAlarm{file: file, rawConn: raw}
}

// set makes wait return after a delay. busy selects the read deadline of the runtime instead of the timerfd.
func (a *kernelAlarm) set(delay time.Duration, busy bool) {
	if busy {
		if !a.busy {
			a.arm(0)
		}
		_ = a.file.SetReadDeadline(time.Now().Add(roundUp(delay))) // an error means that the file is closed
	} else {
		if a.busy {
			_ = a.file.SetReadDeadline(time.Time{}) // an error means that the file is closed
		}
		a.arm(max(delay, 1))
	}
	a.busy = busy
}

// arm sets the timerfd and discards an unread expiry. Zero disarms it.
func (a *kernelAlarm) arm(delay time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(delay))}
	_ = a.rawConn.Control(func(fd uintptr) { // an error means that the file is closed
		// RawSyscall6 does not notify the scheduler, which is unnecessary for a call that
		// never blocks (see read).
		_, _, _ = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0) //nolint:gosec // as package unix does it
	})
}

// wait blocks until the alarm expires, and returns false once the file is closed. It reads the timerfd before it
// blocks, because the runtime poller drops readiness that was signaled earlier. This first read catches an expiry that
// has already happened, and ignores one that arm has discarded.
func (a *kernelAlarm) wait() bool {
	var expirations uint64
	hasRead := false
	err := a.rawConn.Read(func(fd uintptr) bool {
		if hasRead {
			return true
		}
		hasRead = true
		_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&expirations)), unsafe.Sizeof(expirations)) //nolint:gosec // as package unix does it
		return errno != unix.EAGAIN
	})
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}

func (a *kernelAlarm) stop() { _ = a.file.Close() }
