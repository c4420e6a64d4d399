//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"syscall"
	"unsafe"
)

// The race detector observes only the calls of package syscall, so builds with the
// detector use those (rawio_unix.go).

// These calls never block, so they use RawSyscall6, which does not notify the scheduler.
// The notification costs 2 % of a request at full speed. On a mostly idle machine it
// costs much more: after an idle period the first notified call wakes the monitor thread
// of the runtime.

// Read reads available data. It returns syscall.EAGAIN if there is none.
func Read(fd uintptr, p []byte) (int, error) {
	return rawIO(syscall.SYS_RECVFROM, fd, p, syscall.MSG_DONTWAIT)
}

// Write writes as much as the socket buffer takes. It returns syscall.EAGAIN if the buffer
// is full.
func Write(fd uintptr, p []byte) (int, error) {
	return rawIO(syscall.SYS_SENDTO, fd, p, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}

// WriteMore is Write for data that the kernel may delay until more follows (MSG_MORE). If
// the sending side is closed next, the data and the FIN leave in one segment.
func WriteMore(fd uintptr, p []byte) (int, error) {
	return rawIO(syscall.SYS_SENDTO, fd, p, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL|msgMore)
}

// msgMore is MSG_MORE, which package syscall does not define for every system.
const msgMore = 0x8000

func rawIO(call, fd uintptr, p []byte, flags uintptr) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0) //nolint:gosec // as package syscall does it
		if errno == 0 {
			return int(n), nil
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}
