package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer/mux"
	"shardway/proxy"
)

// OpenStream opens a stream if the other node accepts mux sessions. It waits for the first session and
// for the answer to a ping, unless the test is about the behavior of a node in the meantime.
func (n *node) OpenStream(id string) net.Conn {
	s := n.muxSessions.Load()
	if s == nil {
		return nil
	}
	n.wanted.Add(1)
	for range 10_000 {
		if l := s.OpenStream(id); l != nil {
			n.lanes.Add(1)
			n.lane.Store(l)
			if n.wraps != nil {
				return n.wraps(l)
			}
			return l
		}
		last := n.lane.Load()
		if n.hurries || last != nil && last.SessionDraining() || last == nil && n.unlaid.Load() > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// OpenWebSocketStream opens a stream for a WebSocket, if WebSockets use streams.
func (n *node) OpenWebSocketStream(ctx context.Context, id string) net.Conn {
	s := n.webSocketSessions.Load()
	if s == nil {
		return nil
	}
	l := s.OpenStreamWait(ctx, id)
	if l == nil {
		return nil
	}
	n.webSocketStreams.Add(1)
	n.lastWebSocketStream.Store(l)
	return l
}

// dialMuxSession makes the connection of a mux session.
func (n *node) dialMuxSession(ctx context.Context, id string) (net.Conn, error) {
	return n.lay(ctx, id, func(other *node) string { return other.muxAddr })
}

// dialWebSocketSession makes the connection of the mux session for WebSockets. Without a session of
// their own, WebSockets use the common one.
func (n *node) dialWebSocketSession(ctx context.Context, id string) (net.Conn, error) {
	return n.lay(ctx, id, func(other *node) string { return cmpOr(other.webSocketMuxAddr, other.muxAddr) })
}

func (n *node) lay(ctx context.Context, id string, addr func(other *node) string) (net.Conn, error) {
	n.laid.Add(1)
	conn, err := n.reach(ctx, id, addr)
	if err != nil {
		n.unlaid.Add(1)
	}
	if n.tap != nil && err == nil {
		conn = n.tap(conn)
	}
	return conn, err
}

// listenForMuxSessions listens for mux sessions at a separate address.
func (n *node) listenForMuxSessions() net.Listener {
	n.t.Helper()
	if n.host == nil {
		ln := listen(n.t)
		n.muxAddr = ln.Addr().String()
		return ln
	}
	ln, err := n.host.Listen(":91")
	if err != nil {
		n.t.Fatal(err)
	}
	n.muxAddr = n.host.Addr(91)
	return ln
}

// acceptMuxSessions makes the node accept mux sessions, and those of WebSockets at a separate
// address.
func (n *node) acceptMuxSessions() {
	n.t.Helper()
	n.acceptMuxSessionsOn(n.listenForMuxSessions(), func() *mux.Budget { return mux.NewBudget(mux.MaxStreams, nil) })
	if n.host == nil {
		ln := listen(n.t)
		n.webSocketMuxAddr = ln.Addr().String()
		n.acceptMuxSessionsOn(ln, sharing)
		return
	}
	ln, err := n.host.Listen(":92")
	if err != nil {
		n.t.Fatal(err)
	}
	n.webSocketMuxAddr = n.host.Addr(92)
	n.acceptMuxSessionsOn(ln, sharing)
}

// webSocketWindowBytes is the memory that the streams of WebSockets share. It is small, so that the
// tests exhaust it.
const webSocketWindowBytes = 64 << 10

func sharing() *mux.Budget {
	return mux.NewBudget(mux.MaxWebSocketStreams, nil).WithWindowPool(mux.NewBudget(webSocketWindowBytes, nil))
}

func (n *node) acceptMuxSessionsOn(ln net.Listener, budget func() *mux.Budget) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { n.servePeer(ctx, conn, func(conn net.Conn) { n.serveMuxSession(ctx, conn, budget()) }) })
		}
	})
	n.ends = append(n.ends, func() {
		cancel()
		_ = ln.Close()
		all.Wait()
	})
}

// serveMuxSession serves all streams of a mux session.
func (n *node) serveMuxSession(ctx context.Context, conn net.Conn, b *mux.Budget) {
	var serving sync.WaitGroup
	defer serving.Wait()
	t := mux.NewServer(conn, b, func(l *mux.Stream) bool {
		serving.Go(func() { n.ServePeer(ctx, l, "other") })
		return true
	})
	stop := context.AfterFunc(ctx, func() { t.Fail(net.ErrClosed) })
	defer stop()
	_ = t.Run()
}

// enableStreams makes the node open streams for all small requests.
func (n *node) enableStreams() {
	n.UseStreamsForAll()
	n.shareMuxSessions()
}

// shareMuxSessions makes the node open streams when enough requests are in progress.
func (n *node) shareMuxSessions() {
	s := mux.NewSessionSet(mux.MaxStreams, n.dialMuxSession)
	n.muxSessions.Store(s)
	n.t.Cleanup(s.Close)
	n.enableWebSocketStreams()
}

// enableWebSocketStreams makes WebSockets use streams.
func (n *node) enableWebSocketStreams() {
	s := mux.NewSessionSet(mux.MaxWebSocketStreams, n.dialWebSocketSession).WithWindowPool(webSocketWindowBytes, mux.NewBudget(webSocketWindowBytes, nil))
	n.webSocketSessions.Store(s)
}

// overStreams returns a starter of two nodes whose small requests use streams.
func overStreams(two starter) starter {
	return func(t *testing.T, app string, change ...func(*proxy.Options)) (*node, *node) {
		t.Helper()
		ingress, owner := two(t, app, change...)
		owner.acceptMuxSessions()
		ingress.enableStreams()
		return ingress, owner
	}
}

// sized starts an app that responds to /N with N bytes, and counts the requests it receives.
func sized(t *testing.T) (app string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	sizes := map[string]int{"/small": 5, "/large": 200 << 10, "/other": 300 << 10, "/third": 7}
	return webApp(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, strings.Repeat("x", sizes[r.URL.Path]))
	}), asked
}

// Small requests of many clients share one mux session, and each client gets its own response.
func TestSmallRequestsShareSession(t *testing.T) {
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.URL.Path+" "+string(b))
	})
	ingress, _ := overStreams(sealedPair)(t, app)
	var all sync.WaitGroup
	for i := range 40 {
		c := ingress.dial()
		all.Go(func() {
			path, body := "/"+strings.Repeat("p", i+1), strings.Repeat("b", 300*i)
			for range 20 {
				c.send("POST %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
				if res, got := c.answer("POST"); res.StatusCode != 200 || got != path+" "+body {
					t.Errorf("client %d has %s with %d bytes, want its own %d", i, res.Status, len(got), len(path+body)+1)
				}
			}
		})
	}
	all.Wait()
	if ingress.dials.Load() != 0 || ingress.laid.Load() != 1 {
		t.Errorf("%d connections and %d trunks, want one trunk", ingress.dials.Load(), ingress.laid.Load())
	}
	// An owner under load may refuse a request, which is then sent on a stream again.
	refused := metric(t, ingress, "shardway_retries_total", "refused")
	if n := metric(t, ingress, "shardway_mux_streams_total"); n != 40*20+refused {
		t.Errorf("%v requests count as sent by lanes, and %v of them as refused, want %d more than these", n, refused, 40*20)
	}
}

// Requests with a large body, requests with a large response and upgrades use connections of their
// own. The size of a response is known only from an earlier response of the same path.
func TestLargeRequestsUseOwnConn(t *testing.T) {
	for what, send := range map[string]func(c *client){
		"a body that is longer than a window": func(c *client) {
			c.send("POST /small HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 16000\r\n\r\n%s", strings.Repeat("b", 16000))
			c.answer("POST")
		},
		"a long head": func(c *client) {
			c.send("GET /small HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-Long: %s\r\n\r\n", strings.Repeat("v", 12<<10))
			c.answer("GET")
		},
		"a long body": func(c *client) {
			c.send("POST /small HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 100000\r\n\r\n%s", strings.Repeat("b", 100000))
			c.answer("POST")
		},
		"a body of unknown length": func(c *client) {
			c.send("POST /small HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			until(c.t, "it is under way", func() bool { return true })
			c.send("0\r\n\r\n")
			c.answer("POST")
		},
		"an upgrade": func(c *client) {
			c.send("GET /small HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
			c.answer("GET")
		},
	} {
		t.Run(what, func(t *testing.T) {
			app, _ := sized(t)
			ingress, _ := overStreams(pair)(t, app)
			send(ingress.dial())
			if d, l := ingress.dials.Load(), ingress.lanes.Load(); d != 1 || l != 0 {
				t.Errorf("%d connections and %d lanes, want a connection", d, l)
			}
		})
	}
}

func TestLargeResponsesAreRemembered(t *testing.T) {
	app, _ := sized(t)
	ingress, _ := overStreams(pair)(t, app)
	c := ingress.dial()
	for _, step := range []struct {
		path        string
		dials, laid int32
	}{
		{"/small", 0, 1},
		{"/large", 0, 1}, // the size is not known yet
		{"/large", 1, 1},
		{"/small", 1, 1},
		{"/other", 1, 1}, // uses the existing connection: after a large response, an unknown one may be large, too
		{"/small?q=1", 1, 1},
	} {
		if res, body := c.get(step.path); res.StatusCode != 200 {
			t.Fatalf("%s = %s %s", step.path, res.Status, body)
		}
		if d, l := ingress.dials.Load(), ingress.laid.Load(); d != step.dials || l != step.laid {
			t.Errorf("after %s: %d connections and %d trunks, want %d and %d", step.path, d, l, step.dials, step.laid)
		}
	}
}

// heldApp starts an app that counts each request and responds when answer is closed.
func heldApp(t *testing.T) (app string, asked *atomic.Int32, answer chan struct{}) {
	t.Helper()
	over := make(chan struct{})
	asked, answer = new(atomic.Int32), make(chan struct{})
	app = rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			head, err := readHead(r)
			if err != nil {
				return
			}
			asked.Add(1)
			select {
			case <-answer:
			case <-over:
			}
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil || head == "" {
				return
			}
		}
	})
	t.Cleanup(func() { close(over) }) // before the app ends
	return app, asked, answer
}

// After the loss of a session, it is unknown whether its requests have run. Each is retried only if
// its method permits that.
func TestRetryAfterSessionLossFollowsMethod(t *testing.T) {
	for _, tc := range []struct {
		method string
		times  int32
		status int
	}{{"GET", 2, 200}, {"POST", 1, 502}} {
		for name, cut := range map[string]func(l *mux.Stream){
			"broken": func(l *mux.Stream) { l.FailSession(errors.New("cut")) },
			"deaf":   func(l *mux.Stream) { l.FailSession(proxy.ErrPathDead) },
			"alone":  func(l *mux.Stream) { _ = l.SetLinger(0); _ = l.Close() }, // the other streams continue
		} {
			t.Run(tc.method+" "+name, func(t *testing.T) {
				app, asked, answer := heldApp(t)
				ingress, owner := overStreams(pair)(t, app)
				c := ingress.dial()
				c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", tc.method)
				until(t, "it runs", func() bool { return asked.Load() == 1 })
				cut(ingress.lane.Load())
				until(t, "the owner notices", func() bool {
					return owner.running.Load() == tc.times-1 && asked.Load() == tc.times || asked.Load() > tc.times
				})
				close(answer)
				res, body := c.answer(tc.method)
				if res.StatusCode != tc.status || asked.Load() != tc.times || tc.status == 502 && !strings.Contains(body, "may have run") {
					t.Errorf("%s %s after %d runs, want %d after %d", res.Status, body, asked.Load(), tc.status, tc.times)
				}
				if cut := metric(t, ingress, "shardway_aborted_requests_total", "deaf-path"); (cut == 1) != (name == "deaf") {
					t.Errorf("%v cut for a deaf path", cut)
				}
				if d, l := ingress.dials.Load(), ingress.laid.Load(); d != tc.times-1 || l != 1 {
					t.Errorf("%d connections and %d trunks, want that what goes again goes by a connection", d, l)
				}
			})
		}
	}
}

// A client that disconnects ends its own stream and no other.
func TestDisconnectEndsOwnStreamOnly(t *testing.T) {
	app, asked, answer := heldApp(t)
	ingress, owner := overStreams(pair)(t, app)
	stays, leaves := ingress.dial(), ingress.dial()
	for _, c := range []*client{stays, leaves} {
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	}
	until(t, "both run", func() bool { return asked.Load() == 2 })
	_ = leaves.Close()
	until(t, "one has ended", func() bool { return owner.running.Load() == 1 })
	close(answer)
	if res, body := stays.answer("GET"); res.StatusCode != 200 || body != "ok" || asked.Load() != 2 {
		t.Errorf("%s %q after %d runs", res.Status, body, asked.Load())
	}
	if ingress.laid.Load() != 1 {
		t.Errorf("%d trunks, want 1", ingress.laid.Load())
	}
}

// A response on a stream that ends early is visibly truncated at the client, whatever happens to the
// session in the meantime.
func TestTruncatedStreamResponseStaysTruncated(t *testing.T) {
	app := rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		if _, err := readHead(r); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
		}
	})
	ingress, _ := overStreams(pair)(t, app)
	c := ingress.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	_, r := c.head("GET")
	if b, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) || string(b) != "first" {
		t.Errorf("read %q, %v", b, err)
	}
}

// The end of a session is detected when a stream is opened. No request is sent on it, and an unsafe
// request uses another session.
func TestEndedSessionGetsNoRequest(t *testing.T) {
	app, asked := sized(t)
	ingress, _ := overStreams(pair)(t, app)
	c := ingress.dial()
	c.get("/small")
	ingress.lane.Load().FailSession(errors.New("cut"))
	c.get("/small")
	if unsent := metric(t, ingress, "shardway_retries_total", "unsent"); unsent != 0 || asked.Load() != 2 || ingress.dials.Load() != 1 {
		t.Errorf("%d requests ran, %d connections were made, and %v met a trunk that had ended", asked.Load(), ingress.dials.Load(), unsent)
	}
}

// While a request waits for its response, the path is pinged. A request with a fast response causes no
// ping.
func TestStreamPathIsPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		owner, ingress := simNode(t, sim, "owner", simple), simNode(t, sim, "ingress", simple)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		pings := make(chan struct{}, 1)
		ingress.tap = func(c net.Conn) net.Conn { return tapped{c, pings} }
		owner.acceptMuxSessions()
		ingress.enableStreams()
		c := ingress.dial()
		c.get("/soon")
		<-pings // before the first stream
		for path, want := range map[string]int{"/soon": 0, "/slow": 1} {
			c.get(path)
			if n := len(pings); n != want {
				t.Errorf("%d pings while %s was answered, want %d at least", n, path, want)
			}
			for len(pings) > 0 {
				<-pings
			}
		}
		_ = c.Close()
	})
}

// tapped is a connection that reports writes to a mux session that contain only a ping.
type tapped struct {
	net.Conn
	pings chan struct{}
}

func (c tapped) Write(p []byte) (int, error) {
	if string(p) == "\x00\x00\x00\x07\x00\x00\x00\x00" {
		select {
		case c.pings <- struct{}{}:
		default:
		}
	}
	return c.Conn.Write(p)
}
