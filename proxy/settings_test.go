package proxy_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/proxy/accesslog"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/upstream"
)

func TestApplyCountsForTheNextRequestOfAConnection(t *testing.T) {
	for way, starts := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := starts(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-For")+" "+r.Header.Get("Shardway-Key"))
			}))
			c := front.dial()
			ask := func() (*reply, string) {
				c.send("POST /p HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-Other: o\r\nX-Forwarded-For: 10.1.1.1\r\nContent-Length: 2000\r\n\r\n%s", strings.Repeat("a", 2000))
				return c.answer("POST")
			}
			if _, body := ask(); body != "127.0.0.1 k" {
				t.Errorf("before: %q", body)
			}
			keys, err := shardkey.New(shardkey.Spec{Sources: []string{"header:X-Other"}})
			if err != nil {
				t.Fatal(err)
			}
			front.Apply(proxy.Settings{Keys: keys, DebugHeaders: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
			if res, body := ask(); body != "10.1.1.1, 127.0.0.1 o" || res.Header.Get("Shardway-Shard") == "" {
				t.Errorf("after: %q %v", body, res.Header)
			}
			front.Apply(proxy.Settings{MaxBody: 1000})
			res, body := ask()
			wantStatus(t, res, body, 413, "too-large")
		})
	}
}

func TestApplyChangesHeaderLimits(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	c := n.dial()
	c.get("/")
	n.Apply(proxy.Settings{MaxHeaderBytes: 1 << 10})
	c.get("/") // read with the old limit
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nA: %s\r\n\r\n", strings.Repeat("a", 2000))
	res, body := c.answer("GET")
	wantStatus(t, res, body, 431, "headers-too-large")
}

func TestSettingsChangeWhileRequestsRun(t *testing.T) {
	ingress, owner := pair(t, webApp(t, echo))
	var all sync.WaitGroup
	// Both settings change a few times during each request. Without a pause, these changes would take
	// the processor from the requests.
	turns := [2]chan int{make(chan int, 1), make(chan int, 1)}
	for side, n := range []*node{ingress, owner} {
		all.Go(func() {
			for turn := range turns[side] {
				for i := range 3 {
					n.Apply(proxy.Settings{MaxHeaderBytes: 1<<10 + (turn+i)%7<<10, DebugHeaders: i%2 == 0})
				}
			}
		})
	}
	defer all.Wait()
	defer func() {
		for _, c := range turns {
			close(c)
		}
	}()
	c := ingress.dial()
	for i := range 300 {
		for _, c := range turns {
			c <- i
		}
		if res, body := c.get("/"); res.StatusCode != 200 {
			t.Fatalf("%s %s", res.Status, body)
		}
	}
}

// journal is an access log in memory.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *journal) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// next waits until the log has n lines and returns the last one.
func (l *journal) next(t *testing.T, n int) map[string]any {
	t.Helper()
	var last []byte
	until(t, "the line", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		all := bytes.SplitAfter(bytes.Clone(l.b.Bytes()), []byte("\n"))
		if len(all) < n+1 {
			return false
		}
		last = all[n-1]
		return true
	})
	var m map[string]any
	if err := json.Unmarshal(last, &m); err != nil {
		t.Fatalf("%q: %v", last, err)
	}
	return m
}

func want(t *testing.T, line, fields map[string]any) {
	t.Helper()
	for k, v := range fields {
		if line[k] != v {
			t.Errorf("%s = %v, want %v in %v", k, line[k], v, line)
		}
	}
}

func TestAccessLogHasLineForEachRequest(t *testing.T) {
	var log journal
	access := &accesslog.Config{Log: zerolog.New(&log)}
	ingress, _ := pair(t, webApp(t, echo), func(o *proxy.Options) {
		o.Access, o.HashKey = access, func() []byte { return []byte("the cluster's") }
	})
	c := ingress.dial()
	const request = "POST /a%%20b?q=1 HTTP/1.1\r\nHost: h\r\nX-Request-Id: r1\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nhello"
	c.send(request)
	c.answer("POST")
	line := log.next(t, 1) // one line: the owner logs nothing
	want(t, line, map[string]any{
		"method": "POST", "path": "/a%20b", "status": 200.0, "route": "remote", "owner": "owner", "epoch": 1.0,
		"key_hash": "801d2b90b92184c3", "client": "127.0.0.1", "request_id": "r1", "bytes_in": float64(len(request) - 1), "queued_ms": 0.0,
		"query": nil, "key": nil, "error": nil,
	})
	if ms, ok := line["upstream_ms"].(float64); !ok || ms <= 0 || ms > line["took_ms"].(float64) { //nolint:errcheck,forcetypeassert // a test
		t.Errorf("times: %v", line)
	}
	ingress.Apply(proxy.Settings{Access: &accesslog.Config{Log: access.Log, Keys: true, Query: true}})
	c.send(request)
	c.answer("POST")
	want(t, log.next(t, 2), map[string]any{"query": "q=1", "key": "k"})
	c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	c.answer("GET")
	want(t, log.next(t, 3), map[string]any{"status": 400.0, "route": "none", "error": "no-key", "owner": nil, "key_hash": nil})
	c.send("GET  / HTTP/1.1\r\nHost: h\r\n\r\n")
	c.answer("GET")
	want(t, log.next(t, 4), map[string]any{"status": 400.0, "error": "bad-request", "method": nil})
}

// The access log contains the key of the request also if the key is not part of one header line.
func TestAccessLogContainsKeyOfEverySource(t *testing.T) {
	for _, test := range []struct {
		name, target, key string
		spec              shardkey.Spec
	}{
		{"query", "/x?user=a-key-that-is-longer-than-an-address&tab=5", "a-key-that-is-longer-than-an-address", shardkey.Spec{Sources: []string{"query:user"}}},
		{"path", "/rooms/a%20key%20that%20is%20long", "a key that is long", shardkey.Spec{Sources: []string{"path:2"}}},
		{"host", "/", "h.example", shardkey.Spec{Sources: []string{"host"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log journal
			ingress, _ := pair(t, webApp(t, echo), func(o *proxy.Options) {
				o.Access, o.Keys = &accesslog.Config{Log: zerolog.New(&log), Keys: true}, keysOf(t, test.spec)
			})
			c := ingress.dial()
			for i := range 2 { // the second request uses the memory of the first
				c.send("GET %s HTTP/1.1\r\nHost: h.example\r\n\r\n", test.target)
				c.answer("GET")
				want(t, log.next(t, i+1), map[string]any{"key": test.key, "client": "127.0.0.1", "error": nil})
			}
		})
	}
}

func TestAccessLogContainsWaitTime(t *testing.T) {
	var log journal
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Access, o.QueueWait = &accesslog.Config{Log: zerolog.New(&log)}, 50*time.Millisecond
	})
	n.swap(1, 2, held(route.ReasonMoving))
	res, body := n.dial().get("/")
	wantStatus(t, res, body, 503, "queue-timeout")
	line := log.next(t, 1)
	want(t, line, map[string]any{"status": 503.0, "route": "queued", "error": "queue-timeout"})
	if ms, ok := line["queued_ms"].(float64); !ok || ms < 40 {
		t.Errorf("queued_ms = %v", line["queued_ms"])
	}
}

// tlsFront starts a node with TLS for its clients.
func tlsFront(t *testing.T, app string, change ...func(*proxy.Options)) (*node, *tls.Config) {
	t.Helper()
	maker := httptest.NewTLSServer(nil) // used for its certificate only
	defer maker.Close()
	clients, peers := listen(t), listen(t)
	n := &node{t: t, id: "a", addr: clients.Addr().String(), peer: peers.Addr().String()}
	dial, err := upstream.URLDialer("http://" + app)
	if err != nil {
		t.Fatal(err)
	}
	front := tls.NewListener(clients, &tls.Config{Certificates: maker.TLS.Certificates, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	n.start(front, peers, append(change, func(o *proxy.Options) { o.DialUpstream = dial }))
	return n, &tls.Config{InsecureSkipVerify: true}
}

// dialFront opens a connection to the node of tlsFront.
func (n *node) dialFront(conf *tls.Config) *client {
	n.t.Helper()
	c := n.dial()
	c.Conn = tls.Client(c.Conn, conf)
	c.r.Reset(c.Conn)
	return c
}

func TestTLSInFront(t *testing.T) {
	addr, seen := hanging(t)
	n, conf := tlsFront(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-Proto"))
	}))
	c := n.dialFront(conf)
	for range 2 {
		if _, body := c.get("/"); body != "https" {
			t.Errorf("X-Forwarded-Proto = %q", body)
		}
	}
	// The response to bytes that are not a request arrives completely.
	c.send("GET  / HTTP/1.1\r\nHost: h\r\n\r\n%s", strings.Repeat("x", 100<<10))
	res, body := c.answer("GET")
	wantStatus(t, res, body, 400, "bad-request")

	// A client that disconnects cancels its request.
	waiting, conf := tlsFront(t, addr)
	gone := waiting.dialFront(conf)
	gone.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	<-seen
	until(t, "running", func() bool { return waiting.running.Load() == 1 })
	_ = gone.Close()
	until(t, "aborted", func() bool { return waiting.running.Load() == 0 })
}

func TestSlowHandshakesAreDropped(t *testing.T) {
	n, conf := tlsFront(t, webApp(t, echo))
	slow := n.dial()
	slow.send("\x16\x03\x01")
	if res, _ := n.dialFront(conf).get("/"); res.StatusCode != 200 {
		t.Errorf("beside a slow one: %s", res.Status)
	}
	h2 := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
	if err := tls.Client(n.dial().Conn, h2).Handshake(); err == nil {
		t.Error("h2 was agreed on")
	}

	// This case uses a separate node, because on a slow machine the other requests exceed its timeout
	// as well.
	impatient, _ := tlsFront(t, webApp(t, echo), func(o *proxy.Options) { o.HeaderTimeout = 300 * time.Millisecond })
	slow = impatient.dial()
	slow.send("\x16\x03\x01")
	slow.closed()
}

func TestAppOnAUnixSocket(t *testing.T) {
	path := t.TempDir() + "/app.sock"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(echo)}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close() })
	dial, err := upstream.URLDialer("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	ingress, owner := pair(t, "", func(o *proxy.Options) { o.DialUpstream = dial })
	for _, n := range []*node{ingress, owner} {
		c := n.dial()
		for range 3 {
			c.send("POST /u HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nhello")
			if res, body := c.answer("POST"); res.StatusCode != 200 || body != "POST /u hello" {
				t.Errorf("%s %q", res.Status, body)
			}
		}
	}
}

func TestShutdownServesNextRequest(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	used, fresh := n.dial(), n.dial() // fresh may still wait to be accepted
	used.get("/")
	ended := make(chan error, 1)
	go func() { ended <- n.Shutdown(t.Context()) }()
	until(t, "not listening", func() bool {
		c, err := net.Dial("tcp", n.addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	for _, c := range []*client{used, fresh} {
		if res, _ := c.get("/"); res.StatusCode != 200 || !res.Close {
			t.Errorf("after Shutdown began: %s, close %v", res.Status, res.Close)
		}
		c.closed()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
