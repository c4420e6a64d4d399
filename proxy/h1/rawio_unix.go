//go:build unix && !(linux && (amd64 || arm64) && !race)

package h1

import "syscall"

// readFD reads what is there.
func readFD(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// writeFD writes what the socket takes.
func writeFD(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
