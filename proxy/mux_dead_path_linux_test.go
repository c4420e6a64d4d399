package proxy_test

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/peer/mux"
	"shardway/proxy"
)

// deafen makes the kernel drop all packets that arrive at a socket, as if its path were dead. Nothing
// is acknowledged any more, and a FIN is not received.
func deafen(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K} // accept zero bytes of each packet
	if cerr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
}

// A stream has no path information of its own. When the path of its session is dead, all its streams
// fail within the time that a connection has. This includes streams that the sweep has not visited
// yet, and streams that it does not visit. Requests that may be retried are sent elsewhere.
func TestDeadPathFailsAllStreams(t *testing.T) {
	app, asked, answer := heldApp(t)
	ingress, _ := overStreams(pair)(t, app)
	var path atomic.Pointer[net.TCPConn]
	ingress.tap = func(c net.Conn) net.Conn {
		if tcp, ok := c.(*net.TCPConn); ok {
			path.Store(tcp)
		}
		return c
	}
	get, post := ingress.dial(), ingress.dial()
	get.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	post.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	until(t, "both run", func() bool { return asked.Load() == 2 })
	trunks := ingress.muxSessions.Load()
	var idle *mux.Stream
	until(t, "another lane is open", func() bool {
		idle = trunks.OpenStream("owner")
		return idle != nil
	})
	defer func() { _ = idle.Close() }()
	_ = idle.SetReadDeadline(time.Now().Add(10 * time.Second))

	deafen(t, path.Load())
	if err := idle.AwaitReadable(); !errors.Is(err, proxy.ErrPathDead) {
		t.Fatalf("the lane that waits for nothing breaks with %v, want %v", err, proxy.ErrPathDead)
	}
	if res, body := post.answer("POST"); res.StatusCode != 502 || !strings.Contains(body, "may have run") {
		t.Errorf("the POST has %s %s", res.Status, body)
	}
	until(t, "the GET runs again", func() bool { return asked.Load() == 3 })
	close(answer)
	if res, body := get.answer("GET"); res.StatusCode != 200 {
		t.Errorf("the GET has %s %s", res.Status, body)
	}
	if cut, d := metric(t, ingress, "shardway_aborted_requests_total", "deaf-path"), ingress.dials.Load(); cut != 2 || d != 1 || asked.Load() != 3 {
		t.Errorf("%v cut for the dead path, %d connections and %d runs, want two, one and three", cut, d, asked.Load())
	}
	until(t, "there is another trunk", func() bool {
		l := trunks.OpenStream("owner")
		if l != nil {
			_ = l.Close()
		}
		return l != nil && ingress.laid.Load() == 2
	})
}
