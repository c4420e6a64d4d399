package h1

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerGone reports whether the peer has ended its side or the connection is
// broken. It never waits.
func peerGone(fd uintptr) bool { return pollNow(fd, unix.POLLRDHUP) != 0 }

// quiet reports whether there is nothing to read, no end and no error.
func quiet(fd uintptr) bool { return pollNow(fd, unix.POLLIN|unix.POLLRDHUP) == 0 }

// pollNow returns which of events, or of POLLERR and POLLHUP, are there. It
// costs as much as recv with MSG_PEEK, and sees a FIN behind unread bytes. It is
// unix.Ppoll with no time to wait, of which the scheduler is not told: see
// rawIO.
func pollNow(fd uintptr, events int16) int16 {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
	var now unix.Timespec
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0) //nolint:gosec // as package unix does it
		if errno == 0 {
			return fds[0].Revents
		}
		if errno != unix.EINTR {
			return unix.POLLERR
		}
	}
}
