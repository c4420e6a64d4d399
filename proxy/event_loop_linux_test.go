package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// dialToLoop opens a connection, gets the response to one request, and waits until an event loop owns
// the connection. Parking is disabled.
func (n *node) dialToLoop() *client {
	n.t.Helper()
	n.ParkAfter(time.Hour, time.Hour)
	c := n.dial()
	before := metric(n.t, n, "shardway_eventloop_connections")
	if res, body := c.get("/"); res.StatusCode != 200 {
		n.t.Fatalf("answer = %d %q", res.StatusCode, body)
	}
	until(n.t, "a loop has the connection", func() bool {
		return metric(n.t, n, "shardway_eventloop_connections") > before
	})
	return c
}

func (n *node) hasLoopConn() bool { return metric(n.t, n, "shardway_eventloop_connections") > 0 }

func (n *node) carried() int { return int(metric(n.t, n, "shardway_eventloop_requests_total")) }

func TestEventLoopServesSmallRequests(t *testing.T) {
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append([]byte(r.Method+" "+r.URL.Path+" "+r.Header.Get("Shardway-Key")+" "), body...))
	})
	n := newNode(t, "a", app)
	n.WithoutSweeps()
	c := n.dialToLoop()
	for i, ask := range []struct{ request, answer string }{
		{"GET /one HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", "GET /one k "},
		{"POST /two HTTP/1.1\r\nHost: h\r\nX-Shard-Key: l\r\nContent-Length: 5\r\n\r\nhello", "POST /two l hello"},
		{"PUT /three HTTP/1.1\r\nHost: h\r\nX-Shard-Key: l\r\nContent-Length: 0\r\n\r\n", "PUT /three l "},
		{"HEAD /four HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", ""},
		{"DELETE /five HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", "DELETE /five k "},
	} {
		c.send("%s", ask.request)
		method, _, _ := strings.Cut(ask.request, " ")
		if res, body := c.answer(method); res.StatusCode != 200 || body != ask.answer {
			t.Errorf("answer = %d %q, want %q", res.StatusCode, body, ask.answer)
		}
		until(t, "it is counted", func() bool { return n.carried() == i+1 })
	}
	if !n.hasLoopConn() {
		t.Error("the loop has let go of the connection")
	}
}

// odd is an app that responds depending on the path, in ways that an event loop cannot handle or that
// are difficult for it.
func odd(conn net.Conn, r *bufio.Reader) {
	say := func(parts ...string) {
		for _, p := range parts {
			_, _ = io.WriteString(conn, p) // the peer sees the result
		}
	}
	const ok = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
	for tries := 0; ; tries++ {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		switch req.URL.Path {
		case "/chunked":
			say(ok+"Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n", "0\r\nX-T: 1\r\n\r\n")
		case "/close":
			say(ok + "Content-Length: 2\r\nConnection: close\r\n\r\nok")
			return
		case "/until":
			say(ok + "\r\nto the end")
			return
		case "/long":
			say(ok+"Content-Length: 1048576\r\n\r\n", strings.Repeat("x", 1<<20))
		case "/middling":
			say(ok+"Content-Length: 32000\r\n\r\n", strings.Repeat("x", 32000))
		case "/apart":
			say("HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Le", "ngth: 6\r\n\r\n", "abc", "def")
		case "/early":
			say("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", ok+"Content-Length: 2\r\n\r\nok")
		case "/misdirected":
			say("HTTP/1.1 421 Misdirected Request\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n\r\nno")
		case "/bad":
			say("HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok")
			return
		case "/events":
			say(ok + "Content-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: a\n\n")
		case "/none":
			return
		case "/not-modified":
			say("HTTP/1.1 304 Not Modified\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 100\r\n\r\n")
		default:
			say(ok+"Content-Length: ", "2\r\n\r\n", "ok")
		}
		_ = body
	}
}

// A request that an event loop cannot handle is passed to a goroutine. The response is the same as
// without an event loop, and the connection stays open or ends in the same cases.
func TestIneligibleRequestsLeaveEventLoop(t *testing.T) {
	n := newNode(t, "a", rawApp(t, odd), func(o *proxy.Options) { o.HookPath = "/hooks" })
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n" }
	for name, pieces := range map[string][]string{
		"an answer in chunks":        {get("/chunked")},
		"the app's last":             {get("/close")},
		"one that runs until close":  {get("/until")},
		"a long one":                 {get("/long")},
		"a middling one":             {get("/middling")},
		"one in pieces":              {get("/apart")},
		"early hints":                {get("/early")},
		"the app's 421":              {get("/misdirected")},
		"a bad one":                  {get("/bad")},
		"events":                     {get("/events")},
		"none":                       {get("/none")},
		"none to what has a body":    {"POST /none HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\n\r\nx"},
		"304":                        {get("/not-modified")},
		"hooks":                      {get("/hooks/release")},
		"a head in pieces":           {"GET / HTT", "P/1.1\r\nHost: h\r\nX-Shard-", "Key: k\r\n\r\n"},
		"an empty line":              {"\r\n" + get("/")},
		"two empty lines":            {"\r\n\r\n" + get("/")},
		"an empty line, apart":       {"\r\n", "\r\n" + get("/")},
		"a bare LF":                  {"GET / HTTP/1.1\nHost: h\n\n"},
		"no request":                 {"\x16\x03\x01\x02"},
		"no host":                    {"GET / HTTP/1.1\r\nX-Shard-Key: k\r\n\r\n"},
		"no key":                     {"GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
		"two keys":                   {"GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-Shard-Key: l\r\n\r\n"},
		"both lengths":               {"POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"a body in pieces":           {"POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 6\r\n\r\nabc", "def"},
		"a body that is cut":         {"POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 6\r\n\r\nabc", "EOF"},
		"chunks":                     {"POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"},
		"one that waits for its 100": {"POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", "x"},
		"HTTP/1.0":                   {"GET / HTTP/1.0\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n"},
		"HTTP/1.0, kept":             {"GET / HTTP/1.0\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: keep-alive\r\n\r\n"},
		"the client's last":          {"GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: close\r\n\r\n"},
		"two at once":                {get("/") + get("/chunked")},
		"one and a half":             {get("/") + "GET / HTTP/1.1\r\nHo", "st: h\r\nX-Shard-Key: k\r\n\r\n"},
		"one and its end":            {get("/"), "EOF"},
		"one and no other":           {get("/") + "GET / HTTP/1.1\r\nHo", "EOF"},
		"an end":                     {"EOF"},
		"more than a buffer":         {strings.Repeat(get("/"), 300)},
	} {
		t.Run(name, func(t *testing.T) {
			want := exchangePieces(t, n.dial(), pieces)
			for range 3 {
				if got := exchangePieces(t, n.dialToLoop(), pieces); want != got {
					t.Fatalf("answers =\n%.600q, on a connection that no loop has seen\n%.600q", got, want)
				}
			}
			until(t, "all have ended", func() bool { return n.Connections() == 0 })
		})
	}
}

// exchangePieces sends the pieces, which may be read separately or together, then sends one more
// request. It returns all data that it receives.
func exchangePieces(t *testing.T, c *client, pieces []string) string {
	t.Helper()
	var got bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(&got, c.r) // may end in a reset, if the connection was closed with unread bytes
	}()
	half, ok := c.Conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T has no half", c.Conn)
	}
	for _, p := range append(pieces, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", "EOF") {
		if p == "EOF" {
			_ = half.CloseWrite() // a second call does nothing
			break
		}
		if _, err := io.WriteString(half, p); err != nil {
			break // the node has closed the connection; the received data shows why
		}
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatalf("no end after %q", got.String())
	}
	return withoutDates(got.String())
}

// withoutDates removes the Date lines, which differ between responses.
func withoutDates(s string) string {
	var kept []string
	for line := range strings.SplitSeq(s, "\r\n") {
		if !strings.HasPrefix(line, "Date: ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\r\n")
}

// Data that arrives during a request is processed after it, whether it is the FIN or more than a
// buffer holds. No byte is lost.
func TestEventLoopReadsDataThatArrivedMeanwhile(t *testing.T) {
	goes := make(chan struct{})
	app := webApp(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-goes
		}
	})
	n := newNode(t, "a", app)
	n.WithoutSweeps()
	const path = "GET /%s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n"
	wait, next := fmt.Sprintf(path, "wait"), fmt.Sprintf(path, strings.Repeat("x", 64-len(path)+2))
	for name, ask := range map[string]struct {
		first, then string
		ends        bool
	}{
		"nothing":                 {first: wait},
		"one with it":             {first: wait + next},
		"one with it, one after":  {first: wait + next, then: next},
		"one after it":            {first: wait, then: next},
		"an end":                  {first: wait, ends: true},
		"one and an end":          {first: wait, then: next, ends: true},
		"a buffer":                {first: wait, then: strings.Repeat(next, 128)},
		"two buffers":             {first: wait, then: strings.Repeat(next, 256)},
		"two buffers, and an end": {first: wait, then: strings.Repeat(next, 256), ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := n.dialToLoop()
			half, ok := c.Conn.(*net.TCPConn)
			if !ok {
				t.Fatalf("%T has no half", c.Conn)
			}
			c.send("%s", ask.first)
			until(t, "it runs", func() bool { return n.running.Load() == 1 })
			c.send("%s", ask.then)
			if ask.ends {
				if err := half.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			goes <- struct{}{}
			for range strings.Count(ask.first+ask.then, "GET ") {
				if res, _ := c.answer("GET"); res.StatusCode != 200 {
					t.Fatalf("answer = %d", res.StatusCode)
				}
			}
			if ask.ends {
				if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
					t.Errorf("the end = %v, want EOF", err)
				}
			}
		})
	}
}

// Cancelling a shard finds requests that run in an event loop, and does not block.
func TestEventLoopRequestIsCancelled(t *testing.T) {
	asked := make(chan struct{}, 4)
	app := rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		for first := true; ; first = false {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if first && len(asked) == 0 {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				continue
			}
			asked <- struct{}{}
		}
	})
	for name, cut := range map[string]func(n *node){
		"its shard moves":          func(n *node) { n.CancelShards(func(shardmap.Shard) bool { return true }, "test") },
		"the lease is over":        func(n *node) { n.CancelUpstream("test") },
		"the node parts with them": func(n *node) { n.CancelForStop("test") },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "a", app)
			c := n.dialToLoop()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\n\r\nx")
			<-asked // an event loop owns the request, unless the sweep was earlier
			cut(n)
			if res, body := c.answer("POST"); res.StatusCode != 502 {
				t.Errorf("answer = %d %s, want 502", res.StatusCode, body)
			}
			until(t, "it is released", func() bool { return n.running.Load() == 0 })
		})
	}
}

// A shutdown ends idle connections and running requests of event loops.
func TestShutdownClosesEventLoopConns(t *testing.T) {
	asked := make(chan struct{}, 1)
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			asked <- struct{}{}
			<-r.Context().Done()
		}
	})
	n := newNode(t, "a", app)
	idle, runs := n.dialToLoop(), n.dialToLoop()
	runs.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\n\r\nx")
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- n.Shutdown(ctx) }()
	idle.closed()
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v", err)
	}
	if left := n.Connections(); left != 0 {
		t.Errorf("%d connections are left", left)
	}
}

// A client that disconnects during its request cancels the request. A client that disconnects before a
// request ends its connection.
func TestEventLoopDetectsClientDisconnect(t *testing.T) {
	asked, left := make(chan struct{}, 1), make(chan struct{}, 1)
	app := webApp(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			asked <- struct{}{}
			<-r.Context().Done()
			left <- struct{}{}
		}
	})
	n := newNode(t, "a", app)
	c := n.dialToLoop()
	_ = c.Close()
	until(t, "it is let go", func() bool { return n.Connections() == 0 })
	c = n.dialToLoop()
	c.send("GET /wait HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	<-asked
	_ = c.Close()
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Fatal("the app is not told that the client has left")
	}
	until(t, "it is let go", func() bool { return n.Connections() == 0 && n.running.Load() == 0 })
}

// The idle timeout is the same in an event loop as elsewhere.
func TestEventLoopConnsTimeOut(t *testing.T) {
	app := webApp(t, func(http.ResponseWriter, *http.Request) {})
	n := newNode(t, "a", app, func(o *proxy.Options) { o.IdleTimeout = 300 * time.Millisecond })
	n.dialToLoop().closed()
}

// A client that does not read blocks only itself, and receives all its responses later.
func TestEventLoopHandsOffUnsentResponse(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 1900) // sent in one piece, so an event loop handles it
	app := rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 30400\r\n\r\n"+body)
		}
	})
	n := newNode(t, "a", app)
	n.WithoutSweeps()
	slow, other := n.dialToLoop(), n.dialToLoop()
	const many = 400 // 12 MB, more than the socket buffers hold; the last responses are the test
	slow.send("%s", strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", many))
	until(t, "the slow one has left the loop", func() bool { return metric(t, n, "shardway_eventloop_connections") == 1 })
	if res, got := other.get("/"); res.StatusCode != 200 || got != body {
		t.Errorf("the other one got %d and %d bytes", res.StatusCode, len(got))
	}
	if n.carried() < 2 {
		t.Error("a loop has carried nothing")
	}
	for i := range many {
		if res, got := slow.answer("GET"); res.StatusCode != 200 || got != body {
			t.Fatalf("answer %d = %d and %d bytes, want 30400", i, res.StatusCode, len(got))
		}
	}
}

// A connection whose requests are not eligible is not moved to an event loop again for each request.
func TestEventLoopIsNotTriedForEachRequest(t *testing.T) {
	n := newNode(t, "a", rawApp(t, odd))
	c := n.dialToLoop()
	for range 16 {
		if _, body := c.get("/chunked"); body != "hello" {
			t.Fatalf("answer = %q", body)
		}
		if n.hasLoopConn() {
			t.Fatal("a loop waits for the next request")
		}
	}
}

// A request in an event loop follows the move of its shard to another node.
func TestEventLoopUsesPresentTable(t *testing.T) {
	name := func(id string) string {
		return webApp(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, id) })
	}
	n, other := newNode(t, "a", name("a")), newNode(t, "b", name("b"))
	n.knows("b", other)
	other.swap(9, 9, local(9))
	c := n.dialToLoop()
	for _, turn := range []struct {
		route func(shardmap.Shard) route.Route
		want  string
	}{{remote("b", 2), "b"}, {local(3), "a"}, {remote("b", 4), "b"}} {
		n.swap(2, 2, turn.route)
		if _, body := c.get("/"); body != turn.want {
			t.Errorf("answer of %q, want %q", body, turn.want)
		}
	}
	n.swap(5, 5, held(route.ReasonMoving))
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "it waits", func() bool { return n.room.Stats().Waiting == 1 })
	n.swap(6, 6, local(6))
	if _, body := c.answer("GET"); body != "a" {
		t.Errorf("answer of %q after the wait, want a", body)
	}
}

// Additional event loops take over their share of the connections, and loops that end give theirs
// back. All requests are answered in the meantime.
func TestConnsAreBalancedAmongEventLoops(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	n := newNode(t, "a", webApp(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	all := make([]*client, 12)
	for i := range all {
		all[i] = n.dialToLoop()
	}
	for _, c := range []struct {
		what       string
		overloaded bool
		ok         func(many []int) bool
	}{
		{"each has its share", true, func(many []int) bool { return len(many) == 2 && min(many[0], many[1]) >= 4 }},
		{"one has all again", false, func(many []int) bool { return many[0] == len(all) }},
	} {
		until(t, c.what, func() bool {
			many := n.BalanceLoops(c.overloaded) // in addition to the sweep, which runs rarely
			for _, conn := range all {
				if _, body := conn.get("/"); body != "ok" {
					t.Fatalf("answer = %q", body)
				}
			}
			return c.ok(many)
		})
	}
}
