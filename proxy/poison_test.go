package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// workers starts an app of many processes, each with a connection of its own. A request for /poison
// kills the process that reads it. Any other request is answered when together requests have arrived.
func workers(t *testing.T, together int) (addr string, killed *atomic.Int32) {
	t.Helper()
	killed = new(atomic.Int32)
	var warm sync.WaitGroup
	warm.Add(together)
	return rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		for first := true; ; first = false {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if req.URL.Path == "/poison" {
				killed.Add(1)
				return
			}
			if first {
				warm.Done()
				warm.Wait()
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}), killed
}

// A request is sent to up to three processes. Once, up to eight attempts on reused connections were
// not counted, and one poisonous GET killed all eleven processes of an app.
func TestPoisonRequestStopsAfterThreeProcesses(t *testing.T) {
	for way, start := range ways() {
		for _, method := range []string{"GET", "PUT"} {
			t.Run(way+" "+method, func(t *testing.T) {
				const many = 12
				addr, killed := workers(t, many)
				front, _ := start(t, addr)
				cs := front.sendMany(many)
				for _, c := range cs {
					c.answer("GET")
				}
				cs[0].send("%s /poison HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", method)
				res, body := cs[0].answer(method)
				wantStatus(t, res, body, 502, "upstream-broken")
				if !strings.Contains(body, "may have run") {
					t.Errorf("body = %s", body)
				}
				if n := killed.Load(); n > 3 || n < 2 {
					t.Errorf("it killed %d processes, want three at most", n)
				}
			})
		}
	}
}

// The last retry uses a new connection. An app that closes old connections may close each one when the
// next request arrives. Two of them may break during a GET. Once, the third and last attempt used
// another old connection, although a new one would have been served.
func TestLastRetryUsesNewConn(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			const many = 6
			var warm sync.WaitGroup
			warm.Add(many)
			var taken, broken atomic.Int32
			addr := rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				if taken.Add(1) <= many {
					warm.Done()
					warm.Wait()
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				if _, err := http.ReadRequest(r); err == nil {
					broken.Add(1)
				}
			})
			front, _ := start(t, addr)
			cs := front.sendMany(many)
			for _, c := range cs {
				c.answer("GET")
			}
			if res, body := cs[0].get("/"); res.StatusCode != 200 || broken.Load() != 2 {
				t.Errorf("%v %q after %d used connections broke, want 200 after 2", res.Status, body, broken.Load())
			}
		})
	}
}

// The number of attempts survives restarts of the app and the hop to the owner. If an app is down, its
// owner refuses a GET, and the ingress waits for the app. Once, the ingress did not receive the
// owner's count and started again after each restart: within queue-wait, a GET killed a supervised app
// as often as it was restarted.
func TestPoisonCountSurvivesRestartsAndHops(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr := vacant(t)
			var killed atomic.Int32
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				supervise(t, addr, stop, &killed)
			}()
			t.Cleanup(func() {
				close(stop)
				<-stopped
			})
			front, _ := start(t, addr)
			res, body := front.dial().get("/poison")
			if res.StatusCode != 502 || !strings.Contains(body, "may have run") {
				t.Errorf("answer = %v %s", res.Status, body)
			}
			if n := killed.Load(); n != 3 {
				t.Errorf("it killed the app %d times, want 3", n)
			}
		})
	}
}

// supervise runs an app at addr that ends with its first request, and restarts it a moment later,
// until stop is closed.
func supervise(t *testing.T, addr string, stop <-chan struct{}, killed *atomic.Int32) {
	t.Helper()
	for {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Errorf("the app cannot listen again: %v", err)
			return
		}
		go func() {
			<-stop
			_ = ln.Close()
		}()
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			killed.Add(1)
		}
		_ = ln.Close()
		_ = conn.Close()
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A body that is longer than the buffer is not sent again, because only its rest is left.
func TestUnbufferedBodyIsNotSentAgain(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			var seen atomic.Int32
			addr := rawApp(t, func(_ net.Conn, r *bufio.Reader) {
				if req, err := http.ReadRequest(r); err == nil && seen.Add(1) == 1 {
					_, _ = io.Copy(io.Discard, req.Body)
				}
			})
			front, _ := start(t, addr, func(o *proxy.Options) { o.BodyBuffer = 1 << 10 })
			c := front.dial()
			c.send("PUT / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 200000\r\n\r\n%s", strings.Repeat("x", 200_000))
			res, body := c.answer("PUT")
			wantStatus(t, res, body, 502, "upstream-broken")
			if n := seen.Load(); n != 1 {
				t.Errorf("ran %d times, want once", n)
			}
		})
	}
}

// An app that breaks every connection does not get each request three times. Retries are limited to a
// fraction of the requests, plus a burst.
func TestFailingAppIsNotLoadedByRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 1000
		var ran atomic.Int32
		n := simNode(t, newSim(t), "a", func(_ net.Conn, r *bufio.Reader) {
			if _, err := http.ReadRequest(r); err == nil {
				ran.Add(1)
			}
		})
		c := n.dial()
		for range many {
			res, body := c.get("/")
			wantStatus(t, res, body, 502, "upstream-broken")
		}
		if got, most := ran.Load(), int32(many+1000+many/5); got > most {
			t.Errorf("%d requests ran %d times, want %d at most", many, got, most)
		}
		_ = c.Close()
	})
}
