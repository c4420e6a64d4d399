package listener

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// The last check of a listener's backlog also ends the listener, so later connections are refused.
// Once, connections that arrived between this check and the close were reset together with their
// requests.
func TestDrainingBacklogEndsListener(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	dial := func() (net.Conn, error) {
		return new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
	}
	waits, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = waits.Close() }()
	fds := acceptBacklog(ln, handshakeWait)
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
	if len(fds) != 1 {
		t.Errorf("%d connections were taken, want the one that waited", len(fds))
	}
	if conn, err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection after the last look: %v, %v; want it refused", conn, err)
	}
}
