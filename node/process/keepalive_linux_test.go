package process

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAcceptedConnectionsInheritKeepAlive reads the socket options of an accepted connection.
// Without them the node would not detect a client that disappears without closing its connection.
func TestAcceptedConnectionsInheritKeepAlive(t *testing.T) {
	ln, err := listen(t.Context(), "listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("accepted a %T", conn)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		name              string
		level, option, is int
	}{
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
	} {
		if err := raw.Control(func(fd uintptr) {
			if got, err := unix.GetsockoptInt(int(fd), o.level, o.option); err != nil || got != o.is {
				t.Errorf("%s = %d (%v), want %d", o.name, got, err, o.is)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestListenerDoesNotUseMultipathTCP verifies that the listening socket supports the keepalive
// options. On a Multipath TCP socket, kernels before 6.10 reject TCP_KEEPIDLE, and kernels before
// 6.17 do not copy SO_KEEPALIVE.
func TestListenerDoesNotUseMultipathTCP(t *testing.T) {
	ln, err := listen(t.Context(), "listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		t.Fatalf("listens by a %T", ln)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if by, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || by != unix.IPPROTO_TCP {
			t.Errorf("SO_PROTOCOL = %d (%v), want %d, plain TCP", by, err, unix.IPPROTO_TCP)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
