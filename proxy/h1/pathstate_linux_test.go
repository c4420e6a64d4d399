package h1_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/proxy/h1"
)

// A peer that does not read is slow, not dead, because its kernel answers. The connection is checked
// until the kernel has sent three zero-window probes.
func TestPathOfSlowReaderIsAlive(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, ln)
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, conn)
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, other)
	c := h1.NewConn(conn, h1.Options{})
	for _, at := range []time.Duration{0, 100 * time.Millisecond} { // until the socket accepts nothing more
		_ = conn.SetWriteDeadline(time.Now().Add(at + time.Millisecond))
		for err = nil; err == nil; {
			_, err = conn.Write(make([]byte, 1<<20))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatal("no TCP")
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for asked, end := uint8(0), time.Now().Add(20*time.Second); asked < 3; {
		err := raw.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				asked = info.Backoff
			}
		})
		switch {
		case err != nil:
			t.Fatal(err)
		case isPathDead(c):
			t.Fatal("taken for dead")
		case time.Now().After(end):
			t.Skip("the kernel asks nothing here")
		}
		time.Sleep(time.Millisecond)
	}
}

func isPathDead(c *h1.Conn) bool {
	h, _ := c.CheckPath()
	return h == h1.PathDead
}
