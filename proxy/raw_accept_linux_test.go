//go:build linux && (amd64 || arm64)

package proxy_test

import (
	"net"
	"sync/atomic"
	"testing"

	"shardway/internal/rawio"
	"shardway/proxy"
	"shardway/proxy/upstream"
)

// adopting is a listener that counts the connections it accepts and those that are handed to it.
type adopting struct {
	*net.TCPListener
	accepted, adopted atomic.Int32
}

func (l *adopting) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return conn, err
}

func (l *adopting) Adopt(conn net.Conn) net.Conn {
	if _, ok := conn.(*rawio.Conn); ok {
		l.adopted.Add(1)
	}
	return conn
}

// TestRawAcceptTakesBacklog connects clients before the node starts to accept, some of which have
// already sent a request. All are answered, repeatedly.
func TestRawAcceptTakesBacklog(t *testing.T) {
	ln, ok := listen(t).(*net.TCPListener)
	if !ok {
		t.Fatal("no TCP listener")
	}
	front := &adopting{TCPListener: ln}
	peers := listen(t)
	n := &node{t: t, id: "a", addr: ln.Addr().String(), peer: peers.Addr().String()}
	dial, err := upstream.URLDialer("http://" + webApp(t, echo))
	if err != nil {
		t.Fatal(err)
	}
	const many = 10
	var all [many]*client
	for i := range all {
		all[i] = n.dial()
		if i%2 == 0 {
			all[i].send("GET /first HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		}
	}
	n.start(front, peers, []func(*proxy.Options){func(o *proxy.Options) { o.DialUpstream = dial }})
	for i, c := range all {
		if i%2 == 0 {
			if res, _ := c.answer("GET"); res.StatusCode != 200 {
				t.Errorf("status %d, want 200", res.StatusCode)
			}
		}
		for range 3 {
			if res, _ := c.get("/next"); res.StatusCode != 200 {
				t.Errorf("status %d, want 200", res.StatusCode)
			}
		}
	}
	if took, by := front.adopted.Load(), front.accepted.Load(); took != many || by != 0 {
		t.Errorf("%d were taken without the listener, and %d by it, want %d and 0", took, by, many)
	}
}
