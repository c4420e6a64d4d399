//go:build unix && !(linux && (amd64 || arm64) && !race)

package rawio

import "syscall"

// Read reads what is there; syscall.EAGAIN: nothing is.
func Read(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// Write writes what the socket takes; syscall.EAGAIN: it takes nothing.
func Write(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// WriteMore is Write: only Linux is told that more follows.
func WriteMore(fd uintptr, p []byte) (int, error) { return Write(fd, p) }
