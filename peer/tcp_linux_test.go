package peer_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/peer"
)

func option(t *testing.T, c *peer.Conn, level, opt int) int {
	t.Helper()
	rc, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var v int
	var serr error
	if err := rc.Control(func(fd uintptr) { v, serr = unix.GetsockoptInt(int(fd), level, opt) }); err != nil || serr != nil {
		t.Fatal(err, serr)
	}
	return v
}

func TestSocketsAreTunedOnBothSides(t *testing.T) {
	b := &book{}
	p := peer.New(peer.Options{
		Node: "a", Cluster: in("c1"), Lookup: b.lookup,
		UserTimeout: 3 * time.Second, ForwardTimeout: 40 * time.Second,
	})
	accepted := make(chan *peer.Conn)
	for _, k := range []peer.Kind{peer.Heartbeat, peer.Forward, peer.RequestSession, peer.WebSocketSession} {
		p.Handle(k, func(_ context.Context, c *peer.Conn) { accepted <- c })
	}
	serve(t, b, "a", p)
	idle := map[peer.Kind]int{peer.Heartbeat: 10, peer.Forward: 1, peer.RequestSession: 1, peer.WebSocketSession: 1}
	for k, want := range map[peer.Kind]int{peer.Heartbeat: 3000, peer.Forward: 40000, peer.RequestSession: 40000, peer.WebSocketSession: 40000} {
		dialed, err := p.Dial(t.Context(), "a", k)
		if err != nil {
			t.Fatal(err)
		}
		for side, c := range map[string]*peer.Conn{"dialed": dialed, "accepted": <-accepted} {
			if got := option(t, c, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); got != want {
				t.Errorf("%s %v: TCP_USER_TIMEOUT = %d, want %d", side, k, got, want)
			}
			if got := option(t, c, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE); got != idle[k] {
				t.Errorf("%s %v: TCP_KEEPIDLE = %d, want %d", side, k, got, idle[k])
			}
			if got := option(t, c, unix.IPPROTO_TCP, unix.TCP_NODELAY); got == 0 {
				t.Errorf("%s %v: TCP_NODELAY is off", side, k)
			}
			if got := option(t, c, unix.SOL_SOCKET, unix.SO_KEEPALIVE); got == 0 {
				t.Errorf("%s %v: SO_KEEPALIVE is off", side, k)
			}
			_ = c.Close()
		}
	}
}
