//go:build unix

package proxy

import (
	"net"
	"os"
	"syscall"
)

// takeLast takes every connection that waits at the listener and closes it.
func takeLast(ln net.Listener) []net.Conn {
	fds := acceptAll(ln)
	_ = ln.Close() // at once: what comes in from here on is reset
	var conns []net.Conn
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "tcp")
		conn, err := net.FileConn(f) // has a descriptor of its own
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

// acceptAll accepts every connection that waits at the listener, and then ends the listening
// socket (Linux: shutdown(2)): closing takes the thread longer, or a scheduler's time slice. A
// connection that the kernel establishes between the last accept and the end would be reset, so
// Linux drops SYNs meanwhile: the client sends its SYN again after a second, and is refused.
func acceptAll(ln net.Listener) (fds []int) {
	raw := rawOf(ln)
	if raw == nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { // an error means that the listener is closed
		_ = dropSYNs(int(fd)) // otherwise a connection may be reset, as said
		for {
			got, _, err := syscall.Accept(int(fd))
			switch {
			case err == nil:
				fds = append(fds, got)
			case err != syscall.EINTR && err != syscall.ECONNABORTED:
				_ = syscall.Shutdown(int(fd), syscall.SHUT_RD) // closing is next
				return
			}
		}
	})
	return fds
}
