//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"syscall"
	"unsafe"
)

// The race detector learns from package syscall's own calls what happens before
// what, so its builds use those.

// These calls never wait, so the scheduler is not told of them: being told of
// each costs 2 % of a request at full speed, and much more on a machine with
// little to do, where the first such call after a rest wakes the runtime's
// monitor thread.

// Read reads what is there; syscall.EAGAIN: nothing is.
func Read(fd uintptr, p []byte) (int, error) {
	return rawIO(syscall.SYS_RECVFROM, fd, p, syscall.MSG_DONTWAIT)
}

// Write writes what the socket takes; syscall.EAGAIN: it takes nothing.
func Write(fd uintptr, p []byte) (int, error) {
	return rawIO(syscall.SYS_SENDTO, fd, p, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}

// WriteMore is Write for what the kernel may keep until more follows, or the end: the
// end of the sending side then goes out with it, in one segment.
func WriteMore(fd uintptr, p []byte) (int, error) {
	return rawIO(syscall.SYS_SENDTO, fd, p, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL|msgMore)
}

// msgMore is MSG_MORE, which package syscall does not have for every system.
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
