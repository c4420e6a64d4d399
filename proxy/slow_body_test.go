package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// Slow request bodies use no upstream connection while they arrive. Once, 1040 clients that sent one
// byte of a body every 30 seconds used all connections to the app, and other clients got
// upstream-busy.
func TestSlowBodiesOccupyNoUpstreamConn(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, echo), func(o *proxy.Options) { o.MaxUpstreamConns, o.MaxShardConns, o.QueueWait = 2, 2, time.Second })
			var slow []*client
			for range 6 {
				c := front.dial()
				c.send("POST /slow HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nh")
				slow = append(slow, c)
			}
			for range 20 {
				if res, body := front.dial().get("/"); res.StatusCode != http.StatusOK {
					t.Fatalf("beside slow bodies: %s %s", res.Status, body)
				}
			}
			if n := owner.running.Load(); n != 0 {
				t.Errorf("%d requests run whose bodies have not come", n)
			}
			for _, c := range slow {
				c.send("i")
				if _, body := c.answer("POST"); body != "POST /slow hi" {
					t.Errorf("answer = %q", body)
				}
			}
		})
	}
}

// trickle sends a body, one piece per second, until the node rejects it. The returned channel is
// closed at the end.
func (c *client) trickle(length, piece int) (ended <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for left := length; left > 0; left -= piece {
			time.Sleep(time.Second)
			if _, err := io.WriteString(c, strings.Repeat("x", min(piece, left))); err != nil {
				return
			}
		}
	}()
	return done
}

// A body below the minimum rate is rejected. Once, one byte every five seconds renewed the timeout of
// a body forever.
func TestBodiesBelowTheRateAreDropped(t *testing.T) {
	for _, tc := range []struct {
		what   string
		length int // of the body
		piece  int // bytes per second
		status int
	}{
		{"a small body, slow", 1000, 10, http.StatusRequestTimeout},
		{"a large body, slow", 200_000, 400, http.StatusRequestTimeout},
		{"a small body, slow enough", 15_000, 600, http.StatusOK},
		{"a large body, slow enough", 70_000, 1000, http.StatusOK},
	} {
		t.Run(tc.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ingress, owner, _, _ := dialedPair(t)
				for _, n := range []*node{ingress, owner} {
					c := n.dial()
					began := time.Now()
					c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n", tc.length)
					ended := c.trickle(tc.length, tc.piece)
					res, _ := c.answer("POST")
					if took := time.Since(began); res.StatusCode != tc.status || tc.status != http.StatusOK && (took < 9*time.Second || took > 70*time.Second) {
						t.Errorf("%s at %s: %s after %v, want %d", tc.what, n.id, res.Status, took, tc.status)
					}
					_ = c.Close()
					<-ended
					synctest.Wait()
					if n := owner.running.Load(); n != 0 {
						t.Errorf("%d requests still run at the owner", n)
					}
				}
			})
		})
	}
}

// Bodies that are read before their request is sent share a memory limit, and beyond it the slowest
// requests are aborted, and no others. Once, they used 2 GB with the headers and buffers of 16384
// connections, and space for the whole announced length.
func TestAwaitedBodiesShareMemoryLimit(t *testing.T) {
	const fit, all, part = 8, 20, 40_000 // each needs 64 KiB for received bytes, buffer and headers
	const most = fit * (64<<10 + 12<<10)
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, echo), func(o *proxy.Options) { o.MaxBodyTotal = most })
			kept := func() float64 {
				b := metric(t, front, "shardway_body_bytes")
				if b > most {
					t.Fatalf("%v bytes are kept", b)
				}
				return b
			}
			shed := func() int { return int(metric(t, front, "shardway_shed_connections_total", "body")) }
			c := front.dial()
			c.send("POST /announced HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 60000\r\n\r\nx")
			until(t, "awaited", func() bool { return kept() > 0 })
			if b := kept(); b > 20<<10 {
				t.Errorf("%v bytes are kept for a body of which a byte has come", b)
			}
			open := []*client{c}
			for i := range all {
				before, gone := kept(), shed()
				c := front.dial()
				c.send("POST /%d HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 60000\r\n\r\n%s", i, strings.Repeat("x", part))
				open = append(open, c)
				until(t, "awaited", func() bool { return kept() > before || shed() > gone })
				if _, body := front.dial().get("/beside"); body != "GET /beside " {
					t.Fatalf("beside them: %q", body)
				}
			}
			until(t, "read", func() bool { return kept() >= float64(1+all-shed())*(64<<10) })
			gone := shed()
			if gone < all-fit || gone > all {
				t.Errorf("%d were given up, want about %d", gone, all+1-fit)
			}
			for i, c := range open {
				if i < gone {
					res, body := c.answer("POST")
					wantStatus(t, res, body, 408, "request-timeout")
					c.closed()
					continue
				}
				c.send("%s", strings.Repeat("x", 60_000-part))
				if res, body := c.answer("POST"); res.StatusCode != http.StatusOK || len(body) < 60_000 {
					t.Errorf("body %d: %v with %d bytes", i, res.Status, len(body))
				}
			}
			until(t, "forgotten", func() bool { return kept() == 0 })
			if n := owner.running.Load(); n != 0 {
				t.Errorf("%d requests still run", n)
			}
		})
	}
}
