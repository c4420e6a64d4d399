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

// acceptAll takes what the kernel has accepted, and has it accept nothing more in the same
// step where it can (Linux: shutdown(2) ends a listening socket): what comes in between is
// reset, and closing takes this thread a while, or until it has a processor again.
func acceptAll(ln net.Listener) (fds []int) {
	raw := rawOf(ln)
	if raw == nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { // an error means that it is closed
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
