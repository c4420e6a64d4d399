package h1

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerGone reports whether the peer has closed its side or the connection has failed. It does not
// block.
func peerGone(fd uintptr) bool { return pollNow(fd, unix.POLLRDHUP) != 0 }

// readWouldBlock reports whether there is nothing to read: no data, no end of the stream and no
// error.
func readWouldBlock(fd uintptr) bool { return pollNow(fd, unix.POLLIN|unix.POLLRDHUP) == 0 }

// pollNow returns which of events, POLLERR and POLLHUP have occurred. It costs as much as recv with MSG_PEEK, and
// also detects a FIN that follows unread bytes. It is like unix.Ppoll with a zero timeout, but does not notify the
// scheduler, because it never blocks.
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
