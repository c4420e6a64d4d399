package h1

import (
	"errors"

	"golang.org/x/sys/unix"
)

// peerGone reports whether the peer has ended its side or the connection is
// broken. It never waits.
func peerGone(fd uintptr) bool { return pollNow(fd, unix.POLLRDHUP) != 0 }

// quiet reports whether there is nothing to read, no end and no error.
func quiet(fd uintptr) bool { return pollNow(fd, unix.POLLIN|unix.POLLRDHUP) == 0 }

// pollNow returns which of events, or of POLLERR and POLLHUP, are there. It
// costs as much as recv with MSG_PEEK, and sees a FIN behind unread bytes.
func pollNow(fd uintptr, events int16) int16 {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		_, err := unix.Poll(fds[:], 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return unix.POLLERR
		default:
			return fds[0].Revents
		}
	}
}
