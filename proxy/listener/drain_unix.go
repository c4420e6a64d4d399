//go:build unix

package listener

import (
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drain accepts all connections in the backlog of the listener, and closes the listener.
func drain(ln net.Listener) []net.Conn {
	fds := acceptBacklog(ln, handshakeWait)
	_ = ln.Close() // immediately, because later connections are reset
	var conns []net.Conn
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
		file := os.NewFile(uintptr(fd), "tcp")
		conn, err := net.FileConn(file) // net.FileConn duplicates the descriptor
		_ = file.Close()
		if err != nil {
			continue
		}
		if adopter, ok := ln.(interface{ Adopt(net.Conn) net.Conn }); ok {
			conn = adopter.Adopt(conn)
		}
		conns = append(conns, conn)
	}
	return conns
}

// handshakeWait is how long acceptBacklog waits for TCP handshakes in progress. It exceeds the round-trip time of
// most clients. Clients whose SYN arrives in the meantime are refused a second later, so acceptBacklog does not
// wait if there is no such handshake.
const handshakeWait = 50 * time.Millisecond

// handshakePoll is how often acceptBacklog checks whether handshakes are still in progress.
const handshakePoll = 2 * time.Millisecond

// acceptBacklog accepts all connections in the backlog of the listener, and then disables the listening socket (on
// Linux with shutdown(2)), because a close could be delayed by a scheduler time slice. A connection that the kernel
// establishes between the last accept and the shutdown would be reset. On Linux, SYNs are therefore dropped
// in the meantime, and acceptBacklog accepts the connections whose handshakes complete within wait. A client whose SYN
// was dropped retransmits it after a second, and its connection is then refused.
func acceptBacklog(ln net.Listener, wait time.Duration) (fds []int) {
	raw := rawListenerConn(ln)
	if raw == nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { // an error means that the listener is closed
		deadline := time.Now().Add(wait)
		if dropSYNs(int(fd)) != nil {
			deadline = time.Now() // without the filter, new handshakes keep starting, and waiting would not save them from a reset
		}
		for isLast := false; ; {
			accepted, _, err := syscall.Accept(int(fd))
			switch {
			case err == nil:
				fds = append(fds, accepted)
			case err == syscall.EINTR || err == syscall.ECONNABORTED:
			case err == syscall.EAGAIN && !isLast:
				// A handshake may have ended since the last accept, so accept once more if none is in progress.
				if isLast = !time.Now().Before(deadline) || !hasHandshakes(int(fd)); !isLast {
					awaitReadable(int(fd), handshakePoll)
				}
			default:
				_ = syscall.Shutdown(int(fd), syscall.SHUT_RD) // an error does not matter, because the socket is closed next
				return
			}
		}
	})
	return fds
}

// awaitReadable waits until a file descriptor is readable, at most for the given time.
func awaitReadable(fd int, atMost time.Duration) {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	_, _ = unix.Poll(poll, int(atMost.Milliseconds())) // the caller accepts again in any case
}
