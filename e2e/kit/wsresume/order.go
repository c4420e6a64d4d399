//go:build linux

package wsresume

import (
	"context"
	"net"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"
)

// connKey is where a request has its connection.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func connOf(r *http.Request) net.Conn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return c
}

// follows has a leg begin behind the one before it, and returns what notes its end. The kernel
// tells an app of the end of one connection and of the beginning of another in any order, and
// what had come by the first is read after its end. So if that one has ended, as the kernel
// knows, all that is left of it is noted first. If it has not there are two legs at once, and
// the judge is to see that.
func (l *appLeg) follows() (over func()) {
	l.mu.Lock()
	before := l.legs[l.Socket]
	l.legs[l.Socket] = l
	l.mu.Unlock()
	if before != nil && ended(before.raw) {
		<-before.gone
	}
	return func() {
		close(l.gone)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.legs[l.Socket] == l {
			delete(l.legs, l.Socket)
		}
	}
}

// ended reports whether the other end of a connection has ended it, or this one has.
func ended(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	const established = 1 // TCP_ESTABLISHED
	there := false
	err = raw.Control(func(fd uintptr) {
		info, failed := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		there = failed == nil && info.State == established
	})
	return err != nil || !there
}
