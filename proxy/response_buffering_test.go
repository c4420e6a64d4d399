package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/shardmap"
)

// apart is an app that writes the headers of a response and then calls between with the number of the
// request. It writes the body if between returns true, and breaks the connection otherwise.
func apart(seen *atomic.Int32, between func(run int32) bool) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			run := seen.Add(1)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			if !between(run) {
				return
			}
			_, _ = io.WriteString(conn, " whole")
		}
	}
}

// A short response is buffered until it is complete. Most apps write headers and body separately.
// Once, if the app or its node was killed in between, the client of a GET saw a truncated response,
// although the part it got was of no use.
func TestShortResponseIsBufferedUntilComplete(t *testing.T) {
	for way, start := range ways() {
		for _, tc := range []struct {
			method string
			breaks int32 // number of responses that break off
			runs   int32
			ok     bool
		}{
			{"GET", 0, 1, true},
			{"GET", 1, 2, true},
			{"GET", 2, 2, false},
			{"OPTIONS", 1, 2, true},
			{"POST", 1, 1, false},
			{"PUT", 1, 1, false}, // it did run, so a retry gains nothing
		} {
			t.Run(fmt.Sprint(way, " ", tc.method, " ", tc.breaks), func(t *testing.T) {
				var seen atomic.Int32
				front, owner := start(t, rawApp(t, apart(&seen, func(run int32) bool { return run > tc.breaks })))
				c := front.dial()
				c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi", tc.method)
				res, body := c.answer(tc.method)
				if tc.ok && (res.StatusCode != 200 || body != "half whole") {
					t.Errorf("answer = %v %q", res.Status, body)
				}
				if !tc.ok {
					wantStatus(t, res, body, 502, "upstream-broken")
					if !strings.Contains(body, "may have run") {
						t.Errorf("body = %s", body)
					}
				}
				if seen.Load() != tc.runs {
					t.Errorf("ran %d times, want %d", seen.Load(), tc.runs)
				}
				seen.Store(100)
				if res, body := c.get("/"); body != "half whole" {
					t.Errorf("the connection after it: %v %q", res.Status, body)
				}
				until(t, "released", func() bool { return owner.running.Load() == 0 })
			})
		}
	}
}

// simPair starts an ingress and the owner of all shards in a synctest bubble.
func simPair(t *testing.T, app func(net.Conn, *bufio.Reader), change ...func(*proxy.Options)) (ingress, owner *node) {
	t.Helper()
	sim := newSim(t)
	owner = simNode(t, sim, "owner", app, change...)
	ingress = simNode(t, sim, "ingress", app, change...)
	ingress.knows("owner", owner)
	ingress.swap(1, 1, remote("owner", 1))
	return ingress, owner
}

// Cancelling a run whose response is buffered closes its upstream connection only. The client has
// received nothing and still gets exactly one response.
func TestCancelOfBufferedResponseClosesUpstreamOnly(t *testing.T) {
	all := func(shardmap.Shard, string) bool { return true }
	for _, tc := range []struct {
		name, method string
		cut          func(ingress, owner *node) int
		status       int
		code         string
		runs         int32
	}{
		{"drain", "GET", func(_, owner *node) int { return owner.CancelShards(allShards, "draining") }, 502, "shard-moved", 1},
		{"drain", "POST", func(_, owner *node) int { return owner.CancelShards(allShards, "draining") }, 502, "shard-moved", 1},
		{"lease", "GET", func(_, owner *node) int { return owner.CancelUpstream("lease") }, 200, "", 2},
		{"lease", "POST", func(_, owner *node) int { return owner.CancelUpstream("lease") }, 502, "upstream-broken", 1},
		{"parting", "GET", func(_, owner *node) int { return owner.CancelForStop("goodbye") }, 200, "", 2},
		{"parting", "POST", func(_, owner *node) int { return owner.CancelForStop("goodbye") }, 502, "shard-moved", 1},
		{"abandon", "GET", func(ingress, _ *node) int { return ingress.CancelForwarded(all) }, 200, "", 2},
		{"abandon", "POST", func(ingress, _ *node) int { return ingress.CancelForwarded(all) }, 502, "peer-unreachable", 1},
	} {
		for _, local := range []bool{true, false} {
			if local && tc.name == "abandon" {
				continue
			}
			t.Run(fmt.Sprint(tc.name, " ", tc.method, " local ", local), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var seen atomic.Int32
					gate := make(chan struct{})
					ingress, owner := simPair(t, apart(&seen, func(run int32) bool {
						if run == 1 {
							<-gate
						}
						return true
					}))
					front := ingress
					if local {
						front = owner
					}
					defer close(gate)
					c := front.dial()
					c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", tc.method)
					synctest.Wait() // no time has passed
					if tc.name == "abandon" {
						time.Sleep(30 * time.Millisecond) // the ingress buffers what the owner has sent
					}
					if n := tc.cut(ingress, owner); n != 1 {
						t.Errorf("cut %d, want 1", n)
					}
					res, body := c.answer(tc.method)
					wantStatus(t, res, body, tc.status, tc.code)
					if seen.Load() != tc.runs {
						t.Errorf("ran %d times, want %d", seen.Load(), tc.runs)
					}
					_ = c.Close()
				})
			})
		}
	}
}

// A slow response is buffered for a short time only. If it breaks off later, the client sees a
// truncated response.
func TestResponseIsBufferedForShortTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int32
		gate := make(chan bool)
		_, owner := simPair(t, apart(&seen, func(int32) bool { return <-gate }))
		for _, whole := range []bool{true, false} {
			began := time.Now()
			c := owner.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			_, body := c.head("GET")
			if took := time.Since(began); took > 30*time.Millisecond {
				t.Errorf("its head came after %v", took)
			}
			gate <- whole
			b, err := io.ReadAll(body)
			if whole != (err == nil) || whole && string(b) != "half whole" {
				t.Errorf("whole %v: got %q, %v", whole, b, err)
			}
			_ = c.Close()
		}
	})
}

// The process of the owner dies between headers and body of a forwarded response.
func TestResponseIsBufferedAtIngressToo(t *testing.T) {
	for method, runs := range map[string]int32{"GET": 2, "POST": 1} {
		var seen atomic.Int32
		owner := rawApp(t, apart(&seen, func(run int32) bool { return run > 1 }))
		ingress := newNode(t, "ingress", "", func(o *proxy.Options) { o.QueueWait = 200 * time.Millisecond })
		ingress.knows("owner", &node{peer: owner})
		ingress.swap(1, 1, remote("owner", 1))
		c := ingress.dial()
		c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", method)
		res, body := c.answer(method)
		if method == "GET" && body != "half whole" {
			t.Errorf("GET = %v %q", res.Status, body)
		}
		if method == "POST" {
			wantStatus(t, res, body, 502, "peer-unreachable")
		}
		if seen.Load() != runs {
			t.Errorf("%s was sent %d times, want %d", method, seen.Load(), runs)
		}
	}
}
