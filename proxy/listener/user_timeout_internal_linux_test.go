package listener

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel breaks a connection whose client acknowledges nothing for the idle timeout.
func TestUserTimeoutFollowsTheIdleTimeout(t *testing.T) {
	for _, c := range []struct{ idle, want time.Duration }{
		{time.Second, minUserTimeout}, {75 * time.Second, 75 * time.Second}, {-1, 0},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		far, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		tcp, ok := accepted.(*net.TCPConn)
		if !ok {
			t.Fatalf("accepted a %T", accepted)
		}
		SetUserTimeout(tls.Server(accepted, nil), c.idle)
		if got := optionOf(t, tcp); got != c.want {
			t.Errorf("--idle-timeout %v: the connection has %v, want %v", c.idle, got, c.want)
		}
		_ = accepted.Close()
		_ = far.Close()
		_ = ln.Close()
	}
}

func optionOf(t *testing.T, c *net.TCPConn) time.Duration {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	ms := -1
	var optErr error
	err = raw.Control(func(fd uintptr) { ms, optErr = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	if err = errors.Join(err, optErr); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}
