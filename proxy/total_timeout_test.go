package proxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
)

// slowApp needs 30 s for each response. For /chunks and /events, the response begins at once.
func slowApp(conn net.Conn, r *bufio.Reader) {
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		begin, end := "", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"
		switch {
		case strings.HasPrefix(req.URL.Path, "/chunks"):
			begin, end = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n", "0\r\n\r\n"
		case strings.HasPrefix(req.URL.Path, "/events"):
			begin, end = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n", "9\r\ndata: 2\n\n\r\n0\r\n\r\n"
		}
		if _, err := io.WriteString(conn, begin); err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		time.Sleep(30 * time.Second)
		if _, err := io.WriteString(conn, end); err != nil {
			return
		}
	}
}

// totalTimeouts limits requests to 2 s, with other limits for some paths.
func totalTimeouts(o *proxy.Options) {
	o.TotalTimeout = 2 * time.Second
	o.Routes = []proxy.Route{{Prefix: "/long", TotalTimeout: time.Minute}, {Prefix: "/long/short", TotalTimeout: time.Second}, {Prefix: "/off", TotalTimeout: -1}, {Prefix: "/off/x", FirstByteTimeout: time.Hour}}
}

// inTotalTimeouts runs a test in virtual time, once through the owner and once through another node.
func inTotalTimeouts(t *testing.T, test func(t *testing.T, front, owner *node)) {
	t.Helper()
	for name, isLocal := range map[string]bool{"local": true, "remote": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := newSim(t)
				owner := simNode(t, sim, "owner", slowApp, totalTimeouts)
				ingress := simNode(t, sim, "ingress", slowApp, totalTimeouts)
				ingress.knows("owner", owner)
				ingress.swap(1, 1, remote("owner", 1))
				if isLocal {
					test(t, owner, owner)
				} else {
					test(t, ingress, owner)
				}
				time.Sleep(time.Minute) // the app ends
			})
		})
	}
}

// A request that takes too long gets 504. The time of a route can be longer,
// shorter or unlimited.
func TestTotalTimeoutCancelsRequest(t *testing.T) {
	inTotalTimeouts(t, func(t *testing.T, front, _ *node) {
		t.Helper()
		for path, limit := range map[string]time.Duration{"/": 2 * time.Second, "/x": 2 * time.Second, "/long/short": time.Second, "/long": 0, "/off": 0, "/off/x": 0, "/long/other": 0} {
			startedAt := time.Now()
			res := front.askPath(path)
			elapsed := time.Since(startedAt)
			switch {
			case limit == 0 && (res.StatusCode != 200 || elapsed < 30*time.Second):
				t.Errorf("%s: %s after %v", path, res.Status, elapsed)
			case limit > 0 && (res.StatusCode != 504 || res.Header.Get("Shardway-Error") != "upstream-timeout" || elapsed < limit || elapsed > limit+time.Second):
				t.Errorf("%s: %s after %v, want 504 after %v", path, res.Status, elapsed, limit)
			}
		}
	})
}

// The owner cancels a request whose time is over at the node of the client.
func TestTotalTimeoutCancelsRunAtOwner(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, hangingAt(t), func(o *proxy.Options) { o.TotalTimeout = 100 * time.Millisecond })
			c := front.dial()
			c.send("POST /hang HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
			res, body := c.answer("POST")
			wantStatus(t, res, body, 504, "upstream-timeout")
			until(t, "the owner cancels the request", func() bool { return owner.running.Load() == 0 })
		})
	}
}

// A response that has begun is aborted. It does not seem to be complete.
func TestTotalTimeoutAbortsResponse(t *testing.T) {
	inTotalTimeouts(t, func(t *testing.T, front, _ *node) {
		t.Helper()
		c := front.dial()
		startedAt := time.Now()
		c.send("GET /chunks HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		rest, err := io.ReadAll(c.r)
		elapsed := time.Since(startedAt)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
		if text := string(rest); !strings.HasPrefix(text, "HTTP/1.1 200") || !strings.Contains(text, "begin") || strings.Contains(text, "0\r\n\r\n") || elapsed > 4*time.Second {
			t.Errorf("after %v: %q", elapsed, text)
		}
	})
}

// Event streams have no limit.
func TestTotalTimeoutExemptsEventStreams(t *testing.T) {
	inTotalTimeouts(t, func(t *testing.T, front, _ *node) {
		t.Helper()
		for _, method := range []string{"GET", "POST"} {
			c := front.dial()
			c.send("%s /events HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", method)
			if _, body := c.answer(method); body != "data: 1\n\ndata: 2\n\n" {
				t.Errorf("%s: %q", method, body)
			}
		}
	})
}

// The time includes the upload of the body and the wait for an owner.
func TestTotalTimeoutIncludesUploadAndQueue(t *testing.T) {
	inTotalTimeouts(t, func(t *testing.T, front, _ *node) {
		t.Helper()
		c := front.dial()
		startedAt := time.Now()
		c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", 100_000, strings.Repeat("x", 100_000))
		res, body := c.answer("POST")
		if wantStatus(t, res, body, 504, "upstream-timeout"); time.Since(startedAt) > 4*time.Second {
			t.Errorf("after %v", time.Since(startedAt))
		}
		if !res.Close {
			t.Error("the response does not announce that the connection closes")
		}
		front.swap(2, 2, held(route.ReasonMoving))
		startedAt = time.Now()
		c = front.dial()
		res, body = c.get("/x")
		if wantStatus(t, res, body, 503, "queue-timeout"); time.Since(startedAt) > 3*time.Second {
			t.Errorf("after %v", time.Since(startedAt))
		}
	})
}

// The time includes a body that is read before the first attempt, because it is small. A body that arrives in
// time has no effect on the next request of the connection.
func TestTotalTimeoutIncludesSmallBody(t *testing.T) {
	inTotalTimeouts(t, func(t *testing.T, front, _ *node) {
		t.Helper()
		startedAt := time.Now()
		c := front.dial()
		c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nabc")
		res, body := c.answer("POST")
		if wantStatus(t, res, body, http.StatusRequestTimeout, "request-timeout"); time.Since(startedAt) > 4*time.Second {
			t.Errorf("after %v", time.Since(startedAt))
		}
		if rest, _ := io.ReadAll(c.r); len(rest) > 0 || !res.Close {
			t.Errorf("the connection continues: %q", rest)
		}
		c = front.dial()
		for range 2 {
			c.send("POST /long HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nabc")
			time.Sleep(5 * time.Second)
			c.send("de")
			if res, _ := c.answer("POST"); res.StatusCode != http.StatusOK {
				t.Errorf("a slow body: %s", res.Status)
			}
		}
	})
}

// The time includes a body that is read because it may contain the key.
func TestTotalTimeoutIncludesBodyWithKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simNode(t, newSim(t), "owner", slowApp, totalTimeouts, func(o *proxy.Options) {
			o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"json:/id"}})
		})
		startedAt := time.Now()
		c := n.dial()
		c.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
		res, body := c.answer("POST")
		if wantStatus(t, res, body, http.StatusRequestTimeout, "request-timeout"); time.Since(startedAt) > 4*time.Second {
			t.Errorf("after %v", time.Since(startedAt))
		}
	})
}

func TestTotalTimeoutCancelsHandler(t *testing.T) {
	ended := make(chan bool, 1)
	n := newNode(t, "a", "", func(o *proxy.Options) {
		o.TotalTimeout = 100 * time.Millisecond
		o.Handler = func(ctx *fasthttp.RequestCtx) { <-ctx.Done(); ended <- true }
	})
	res, body := n.dial().get("/")
	wantStatus(t, res, body, 504, "upstream-timeout")
	<-ended
}

// A connection that may use an event loop has the timeout, too.
func TestTotalTimeoutInEventLoop(t *testing.T) {
	n := newNode(t, "a", hangingAt(t), func(o *proxy.Options) { o.TotalTimeout = 300 * time.Millisecond })
	c := n.dial()
	for range 8 {
		if res, _ := c.get("/"); res.StatusCode != http.StatusOK {
			t.Fatalf("a fast request: %s", res.Status)
		}
		time.Sleep(5 * time.Millisecond) // the connection may join an event loop
	}
	c.send("GET /hang HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	res, body := c.answer("GET")
	wantStatus(t, res, body, 504, "upstream-timeout")
	time.Sleep(400 * time.Millisecond)
	if res, _ := n.dial().get("/"); res.StatusCode != http.StatusOK {
		t.Errorf("the next request: %s", res.Status)
	}
}

// A request on the same connection has its own time, or none.
func TestTotalTimeoutEndsWithRequest(t *testing.T) {
	inTotalTimeouts(t, func(t *testing.T, front, _ *node) {
		t.Helper()
		c := front.dial()
		c.send("GET /long HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		if res, _ := c.answer("GET"); res.StatusCode != http.StatusOK {
			t.Fatalf("within a minute: %s", res.Status)
		}
		time.Sleep(20 * time.Second)
		c.send("GET /off HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		if res, _ := c.answer("GET"); res.StatusCode != http.StatusOK {
			t.Errorf("without a limit: %s", res.Status)
		}
	})
}

// A WebSocket and an event stream continue at the next owner long after the time of their request.
func TestTotalTimeoutEndsWhenWebSocketBegins(t *testing.T) {
	short := func(o *proxy.Options) { o.TotalTimeout = 2 * time.Second }
	inSockets(t, func() *chat { return &chat{} }, func(w *socketTest) {
		c := w.front.dial()
		c.send("GET /chat HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if res, _ := c.head("GET"); res.StatusCode != http.StatusSwitchingProtocols {
			w.Fatalf("%s %v", res.Status, res.Header)
		}
		c.sendText("one")
		time.Sleep(time.Minute)
		w.own(w.b)
		time.Sleep(time.Minute)
		c.sendText("two")
		time.Sleep(time.Minute)
		w.app.mu.Lock()
		defer w.app.mu.Unlock()
		if len(w.app.heads) != 2 {
			w.Errorf("%d upstream connections, want 2", len(w.app.heads))
		}
	}, short)
	for _, local := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newStreams(t, local, short)
			l := w.opens("GET /events HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n").begins(resumable, "id: 1\n\n")
			w.reads("id: 1\n\n")
			time.Sleep(time.Minute)
			w.move(w.first, w.next)
			<-l.over
			l = <-w.legs
			time.Sleep(10 * time.Second) // before its header
			l = l.begins(resumable, "id: 2\n\n")
			w.reads("id: 2\n\n")
			_, _ = io.WriteString(l.Conn, "0\r\n\r\n")
			w.ends("", true)
		})
	}
}
