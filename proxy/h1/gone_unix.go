//go:build unix && !linux

package h1

import (
	"errors"

	"golang.org/x/sys/unix"
)

// peerGone reports whether the peer has closed its side or the connection has failed. On these systems, unread
// bytes hide this. It does not block.
func peerGone(fd uintptr) bool {
	n, err := peek(fd)
	return n == 0 && err == nil || err != nil && !errors.Is(err, unix.EAGAIN)
}

// readWouldBlock reports whether there is nothing to read: no data, no end of the stream and no
// error.
func readWouldBlock(fd uintptr) bool {
	_, err := peek(fd)
	return errors.Is(err, unix.EAGAIN)
}

func peek(fd uintptr) (int, error) {
	var b [1]byte
	for {
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
