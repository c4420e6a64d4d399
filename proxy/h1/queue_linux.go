package h1

import "golang.org/x/sys/unix"

// sendQueue returns how many bytes of a TCP socket, FIN included, the peer has not acknowledged;
// -1 if fd is no TCP socket or the kernel does not tell. A Unix socket counts what the peer has not
// read.
func sendQueue(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	if err != nil {
		return -1
	}
	return n
}
