//go:build unix

package listener

import (
	"net"
	"os"
	"syscall"
)

// drain accepts all connections in the backlog of the listener, and closes the listener.
func drain(ln net.Listener) []net.Conn {
	fds := acceptBacklog(ln)
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

// acceptBacklog accepts all connections in the backlog of the listener, and then disables the listening
// socket (on Linux with shutdown(2)), because a close could be delayed by a scheduler time slice. A
// connection that the kernel establishes between the last accept and the shutdown would be reset.
// Therefore Linux drops SYNs in the meantime: the client repeats its SYN after a second, and the
// connection is then refused.
func acceptBacklog(ln net.Listener) (fds []int) {
	raw := rawListenerConn(ln)
	if raw == nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { // an error means that the listener is closed
		_ = dropSYNs(int(fd)) // without it, a connection may be reset
		for {
			accepted, _, err := syscall.Accept(int(fd))
			switch {
			case err == nil:
				fds = append(fds, accepted)
			case err != syscall.EINTR && err != syscall.ECONNABORTED:
				_ = syscall.Shutdown(int(fd), syscall.SHUT_RD) // an error does not matter, because the socket is closed next
				return
			}
		}
	})
	return fds
}
