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
		f := os.NewFile(uintptr(fd), "tcp")
		conn, err := net.FileConn(f) // net.FileConn duplicates the descriptor
		_ = f.Close()
		if err != nil {
			continue
		}
		if a, ok := ln.(interface{ Adopt(net.Conn) net.Conn }); ok {
			conn = a.Adopt(conn)
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
	raw := rawOf(ln)
	if raw == nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { // an error means that the listener is closed
		_ = dropSYNs(int(fd)) // without it, a connection may be reset
		for {
			got, _, err := syscall.Accept(int(fd))
			switch {
			case err == nil:
				fds = append(fds, got)
			case err != syscall.EINTR && err != syscall.ECONNABORTED:
				_ = syscall.Shutdown(int(fd), syscall.SHUT_RD) // an error does not matter, because the socket is closed next
				return
			}
		}
	})
	return fds
}
