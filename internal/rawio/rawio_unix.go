//go:build unix && !(linux && (amd64 || arm64) && !race)

package rawio

import "syscall"

// Read reads available data. It returns syscall.EAGAIN if there is none.
func Read(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// Write writes as much as the socket buffer takes. It returns syscall.EAGAIN if the buffer
// is full.
func Write(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// WriteMore is Write: only Linux has MSG_MORE.
func WriteMore(fd uintptr, p []byte) (int, error) { return Write(fd, p) }
