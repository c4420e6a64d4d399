package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// 1 040 clients that sent a byte of a body each half minute held all connections to
// the app, and everybody else was told upstream-busy.
func TestSlowBodiesHoldNoConnectionToTheApp(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, echo), func(o *proxy.Options) { o.UpstreamConns, o.ShardConns, o.QueueWait = 2, 2, time.Second })
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

// A byte every five seconds renewed the time-out of a body for ever.
func TestBodiesBelowTheRateAreDropped(t *testing.T) {
	for _, tc := range []struct {
		what   string
		length int // of the body
		piece  int // that comes each second
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
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						for left := tc.length; left > 0; left -= tc.piece {
							time.Sleep(time.Second)
							if _, err := fmt.Fprint(c, strings.Repeat("x", min(tc.piece, left))); err != nil {
								return
							}
						}
					}()
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
