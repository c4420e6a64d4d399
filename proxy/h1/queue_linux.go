package h1

import "golang.org/x/sys/unix"

// sendQueue returns the number of sent bytes, including the FIN, that the peer of a TCP socket has
// not acknowledged. For a Unix socket, it returns the number of bytes that the peer has not read.
// It returns -1 if the kernel does not report the number.
func sendQueue(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	if err != nil {
		return -1
	}
	return n
}
