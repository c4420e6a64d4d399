package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
)

// diesOnce starts an app that breaks its first requests after the headers, having sent what, and
// answers the later ones.
func diesOnce(t *testing.T, times int32, what string) (addr string, seen *atomic.Int32) {
	t.Helper()
	seen = new(atomic.Int32)
	return rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(req.Body)
			if seen.Add(1) <= times {
				_, _ = io.WriteString(conn, what)
				return
			}
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 3+len(body), "ok "+string(body))
		}
	}), seen
}

func TestOnlyRepeatableRequestsAreRetried(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			for _, tc := range []struct {
				method string
				again  bool
			}{
				{"GET", true}, {"HEAD", true}, {"OPTIONS", true}, {"PUT", true}, {"DELETE", true}, {"POST", false}, {"PATCH", false}, {"PROPFIND", false},
			} {
				for _, said := range []string{"", "HTTP/1.1 200 OK\r\nConte"} {
					addr, seen := diesOnce(t, 1, said)
					front, _ := start(t, addr)
					c := front.dial()
					c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 4\r\n\r\nbody", tc.method)
					res, body := c.answer(tc.method)
					if tc.again {
						if res.StatusCode != 200 || tc.method != "HEAD" && body != "ok body" || seen.Load() != 2 {
							t.Errorf("%s after %q: %v %q, ran %d times", tc.method, said, res.Status, body, seen.Load())
						}
						continue
					}
					wantStatus(t, res, body, 502, "upstream-broken")
					if seen.Load() != 1 || !strings.Contains(body, "may have run") {
						t.Errorf("%s after %q: ran %d times: %s", tc.method, said, seen.Load(), body)
					}
					c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
					if res, _ := c.answer("GET"); res.StatusCode != 200 {
						t.Errorf("next = %v", res.Status)
					}
				}
			}
		})
	}
}

func TestRetriesAreLimited(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr, seen := diesOnce(t, 1000, "")
			front, _ := start(t, addr)
			res, body := front.dial().get("/")
			wantStatus(t, res, body, 502, "upstream-broken")
			if seen.Load() != 3 {
				t.Errorf("ran %d times, want 3", seen.Load())
			}
		})
	}
}

// A safe request survives several broken connections in a row, because an app that crashes breaks one
// after the other. Once, an owner gave up after the second one and failed a GET that the restarted app
// could have answered.
func TestSafeRequestSurvivesSuccessiveBrokenConns(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr, seen := diesOnce(t, 2, "")
			front, _ := start(t, addr)
			if res, body := front.dial().get("/"); res.StatusCode != 200 || seen.Load() != 3 {
				t.Errorf("%v %q, ran %d times", res.Status, body, seen.Load())
			}
		})
	}
}

func TestPutIsRetriedOnlyInSameEpoch(t *testing.T) {
	var n *node
	var seen atomic.Int32
	addr := rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		seen.Add(1)
		n.swap(2, 2, local(2)) // the shard has had another owner in the meantime
	})
	n = newNode(t, "a", addr)
	c := n.dial()
	c.send("PUT / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	res, body := c.answer("PUT")
	wantStatus(t, res, body, 502, "upstream-broken")
	if seen.Load() != 1 {
		t.Errorf("ran %d times, want once", seen.Load())
	}
}

func TestForwardedPutIsBoundToEpoch(t *testing.T) {
	ingress, owner := pair(t, webApp(t, echo), func(o *proxy.Options) { o.QueueWait = 100 * time.Millisecond })
	owner.swap(1, 1, local(9))
	c := ingress.dial()
	c.send("PUT / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	res, body := c.answer("PUT")
	wantStatus(t, res, body, 503, "queue-timeout")
	ingress.swap(1, 1, remote("owner", 9))
	c.send("PUT / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	if res, _ := c.answer("PUT"); res.Header.Get("Saw-Shardway-Epoch") != "9" {
		t.Errorf("epoch = %q", res.Header.Get("Saw-Shardway-Epoch"))
	}
}

func TestPostUsesNoBrokenConn(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			closeNow, closed := make(chan struct{}), make(chan error, 1)
			var conns atomic.Int32
			addr := rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				first := conns.Add(1) == 1
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					if first {
						<-closeNow
						closed <- closeAcknowledged(conn) // as apps close idle connections
						return
					}
				}
			})
			front, _ := start(t, addr)
			c := front.dial()
			c.get("/")
			close(closeNow)
			if err := <-closed; err != nil {
				t.Fatal(err)
			}
			for range 3 {
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\n\r\nx")
				if res, body := c.answer("POST"); res.StatusCode != 200 {
					t.Fatalf("POST = %v %s", res.Status, body)
				}
			}
		})
	}
}

// closeAcknowledged closes a connection and returns after the peer's kernel has acknowledged it. With
// SO_LINGER, close waits for that (socket(7)). On a busy machine this takes a while.
func closeAcknowledged(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return fmt.Errorf("%T does not linger", conn)
	}
	const most = 10 // in seconds
	return errors.Join(tcp.SetLinger(most), tcp.Close())
}

// vacant returns an address without a listener. It is on a host of its own, because a port of this
// host could be reused.
func vacant(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Skip("there is no 127.0.0.9 here")
	}
	_ = ln.Close()
	return ln.Addr().String()
}

func TestRequestWaitsForRestartingApp(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr := vacant(t)
			front, _ := start(t, addr)
			c := front.dial()
			c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
			until(t, "waiting", func() bool { return front.room.Stats().Entered > 0 })
			back, err := net.Listen("tcp", addr)
			if err != nil {
				t.Skip("the port is taken")
			}
			s := &http.Server{Handler: http.HandlerFunc(echo)}
			go func() { _ = s.Serve(back) }()
			defer func() { _ = s.Close() }()
			if _, body := c.answer("POST"); body != "POST /x hi" {
				t.Errorf("body = %q", body)
			}
		})
	}
}

func TestMissingAppIsReported(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr := vacant(t)
			front, _ := start(t, addr, func(o *proxy.Options) { o.QueueWait = 50 * time.Millisecond })
			res, body := front.dial().get("/")
			wantStatus(t, res, body, 502, "upstream-refused")
		})
	}
}

func TestMissingOwnerIsReported(t *testing.T) {
	ingress, _ := pair(t, webApp(t, echo), func(o *proxy.Options) { o.QueueWait = 50 * time.Millisecond })
	ingress.dialError.Store(true)
	res, body := ingress.dial().get("/")
	wantStatus(t, res, body, 503, "peer-unreachable")
	ingress.dialError.Store(false)
	if res, _ := ingress.dial().get("/"); res.StatusCode != 200 {
		t.Errorf("later: %v", res.Status)
	}
}

func TestMalformedResponseBecomes502(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			for _, answer := range []string{
				"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
				"HTTP/1.1 200 OK\r\nBad Header: 1\r\nContent-Length: 0\r\n\r\n",
				"HTTP/2 200\r\n\r\n", "nonsense\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
			} {
				addr, seen := diesOnce(t, 1, answer)
				front, _ := start(t, addr)
				c := front.dial()
				res, body := c.get("/")
				wantStatus(t, res, body, 502, "upstream-broken")
				if seen.Load() != 1 {
					t.Errorf("%q: ran %d times", answer, seen.Load())
				}
				if res, body := c.get("/"); res.StatusCode != 200 {
					t.Errorf("%q: next = %v %s", answer, res.Status, body)
				}
			}
		})
	}
}

func TestTruncatedResponseStaysTruncated(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			for _, answer := range []string{
				"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\nhalf",
				"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
				"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
			} {
				addr, _ := diesOnce(t, 1, answer)
				front, _ := start(t, addr)
				c := front.dial()
				c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				_, half := c.head("GET")
				b, err := io.ReadAll(half)
				if err == nil {
					t.Errorf("%q looks whole: %q", answer, b)
				}
			}
		})
	}
}

func TestResponseUntilCloseIsChunkedOrReset(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr, _ := diesOnce(t, 100, "HTTP/1.0 200 OK\r\n\r\nall of it")
			front, _ := start(t, addr)
			c := front.dial()
			for range 2 {
				if res, body := c.get("/"); body != "all of it" || len(res.TransferEncoding) != 1 {
					t.Errorf("answer = %q %v", body, res.TransferEncoding)
				}
			}
			old := front.dial()
			old.send("GET / HTTP/1.0\r\nX-Shard-Key: k\r\n\r\n")
			res, body := old.answer("GET")
			if body != "all of it" || len(res.TransferEncoding) != 0 {
				t.Errorf("answer for HTTP/1.0 = %q %v", body, res.TransferEncoding)
			}
			old.closed()
		})
	}
}

func TestTruncatedRequestBodyStaysTruncated(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			for _, head := range []string{"Content-Length: 100000\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "Content-Length: 10\r\n\r\nhalf"} {
				errs := make(chan error, 1)
				front, _ := start(t, webApp(t, func(_ http.ResponseWriter, r *http.Request) {
					_, err := io.ReadAll(r.Body)
					errs <- err
				}))
				c := front.dial()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s", head)
				time.Sleep(5 * time.Millisecond)
				_ = c.Close()
				select {
				case err := <-errs:
					if err == nil {
						t.Errorf("%q looked whole to the app", head)
					}
				case <-time.After(300 * time.Millisecond): // the request never reached the app
				}
			}
		})
	}
}

func TestInvalidChunkIsRejected(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			errs := make(chan error, 1)
			front, _ := start(t, webApp(t, func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				errs <- err
			}))
			c := front.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\nGET /evil HTTP/1.1\r\nHost: h\r\n\r\n")
			res, body := c.answer("POST")
			wantStatus(t, res, body, 400, "bad-request")
			c.closed()
			select {
			case err := <-errs:
				if err == nil {
					t.Error("it looked whole to the app")
				}
			case <-time.After(300 * time.Millisecond):
			}
		})
	}
}

// A killed app or owner leaves connections that look usable. They must not use up the attempts of a
// request one after the other.
func TestIdleConnsOfDeadAppAreDiscardedTogether(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			ln := listen(t)
			addr := ln.Addr().String()
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(20 * time.Millisecond) // so that each request has its own connection
				echo(w, r)
			})}
			go func() { _ = s.Serve(ln) }()
			front, _ := start(t, addr)
			var cs []*client
			for range 10 {
				c := front.dial()
				c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				cs = append(cs, c)
			}
			for _, c := range cs {
				c.answer("GET")
			}
			_ = s.Close()
			cs[0].send("GET /again HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			until(t, "waiting", func() bool { return front.room.Stats().Entered > 0 })
			back, err := net.Listen("tcp", addr)
			if err != nil {
				t.Skip("the port is taken")
			}
			again := &http.Server{Handler: http.HandlerFunc(echo)}
			go func() { _ = again.Serve(back) }()
			defer func() { _ = again.Close() }()
			if _, body := cs[0].answer("GET"); body != "GET /again " {
				t.Errorf("body = %q", body)
			}
		})
	}
}

func TestUpstreamConnsAreLimited(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			var now, most atomic.Int32
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(5 * time.Millisecond)
				now.Add(-1)
				echo(w, r)
			}), func(o *proxy.Options) { o.MaxUpstreamConns = 2 })
			var cs []*client
			for range 12 {
				c := front.dial()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\n\r\nx")
				cs = append(cs, c)
			}
			for i, c := range cs {
				if res, body := c.answer("POST"); res.StatusCode != 200 {
					t.Errorf("answer %d = %v %s", i, res.Status, body)
				}
			}
			if most.Load() > 2 {
				t.Errorf("%d at once, want 2", most.Load())
			}
		})
	}
}

func TestBusyAppIsReportedAfterQueueWait(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr, seen := hanging(t)
			front, owner := start(t, addr, func(o *proxy.Options) { o.MaxUpstreamConns, o.QueueWait = 1, 150*time.Millisecond })
			first := front.dial()
			first.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			<-seen
			res, body := front.dial().get("/")
			wantStatus(t, res, body, 503, "upstream-busy")
			owner.CancelShards(allShards, "draining")
		})
	}
}
