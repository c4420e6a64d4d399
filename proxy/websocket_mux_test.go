package proxy_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer/mux"
	"shardway/proxy"
)

// overWebSocketStreams runs f with WebSockets that use multiplexed streams to their owner.
func overWebSocketStreams(t *testing.T, app func() *chat, f func(t *socketTest)) {
	t.Helper()
	inSockets(t, app, func(t *socketTest) {
		if t.lanes {
			f(t)
		}
	})
}

// The WebSockets of a node's clients share one mux session to their owner. Later upstream connections
// use it as well and need no handshake.
func TestResumableWebSocketsShareSession(t *testing.T) {
	overWebSocketStreams(t, plainChat, func(t *socketTest) {
		const many = 40
		var all []*client
		for range many {
			all = append(all, t.front.socket())
		}
		t.move(t.a, t.b)
		for _, c := range all {
			c.sendText("on")
		}
		t.until("all go on", t.app.has(many))
		if d, l, laid := t.front.dials.Load(), t.front.webSocketStreams.Load(), t.front.laid.Load(); d != 0 || l != 2*many || laid != 2 {
			t.Errorf("%d connections, %d lanes by %d trunks, want %d lanes by a trunk to each owner", d, l, laid, 2*many)
		}
		if n := metric(t.T, t.front, "shardway_mux_streams_total"); n != 2*many {
			t.Errorf("%v requests count as sent by lanes", n)
		}
		for _, c := range all {
			_ = c.Close()
		}
		t.until("no lane is left", func() bool { return t.b.running.Load() == 0 && t.b.Connections() == 0 })
	})
}

// A WebSocket with much traffic uses a connection of its own after the next move. If it is quiet
// there, it uses a stream again after the following move.
func TestBulkWebSocketGetsOwnConnNext(t *testing.T) {
	overWebSocketStreams(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		text := strings.Repeat("x", 60_000)
		go func() {
			for range 20 {
				_, _ = t.app.conn(0).Write(message(0x81, false, text))
			}
		}()
		for range 20 {
			c.receiveText()
		}
		t.move(t.a, t.b)
		t.until("it goes on", func() bool { return len(t.app.upgradeRequests()) == 2 })
		if n := t.front.dials.Load(); n != 1 {
			t.Errorf("%d connections, want one for a socket that transferred much", n)
		}
		time.Sleep(time.Minute)
		lanes := t.front.webSocketStreams.Load()
		t.move(t.b, t.a)
		c.sendText("on")
		t.until("it goes on", t.app.has(1))
		if d, l := t.front.dials.Load(), t.front.webSocketStreams.Load(); d != 1 || l != lanes+1 {
			t.Errorf("%d connections and %d lanes more, want a lane for a socket that was quiet", d-1, l-lanes)
		}
		_ = c.Close()
	})
}

// A WebSocket that is not resumable has no later upstream connection. After the first one of a path,
// the WebSockets of this path use connections of their own until the app permits resumption.
func TestOtherWebSocketsUseOwnConns(t *testing.T) {
	keeps := false
	overWebSocketStreams(t, func() *chat {
		keeps = false
		return &chat{answer: func(int, http.Header) string {
			if keeps {
				return ""
			}
			return "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n"
		}}
	}, func(t *socketTest) {
		for i, want := range []struct{ dials, lanes int32 }{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {3, 2}} {
			keeps = i >= 3
			c := t.front.socket()
			c.sendText("hello")
			t.until("it is carried", t.app.has(i+1))
			if d, l := t.front.dials.Load(), t.front.webSocketStreams.Load(); d != want.dials || l != want.lanes {
				t.Errorf("socket %d: %d connections and %d lanes, want %d and %d", i, d, l, want.dials, want.lanes)
			}
			_ = c.Close()
			t.until("it is over", func() bool { return t.a.running.Load() == 0 })
		}
	})
}

// A stream that the owner refuses has not been read. The upstream connection uses a connection
// instead, both at first and after a move.
func TestWebSocketWithRefusedStreamUsesConn(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		if t.local || t.lanes {
			return
		}
		for _, n := range []*node{t.a, t.b} {
			n.plays(mux.NewBudget(0, nil), func(*mux.Stream) {})
		}
		t.front.enableWebSocketStreams()
		c := t.front.socket()
		t.move(t.a, t.b)
		c.sendText("on")
		t.until("it goes on", t.app.has(1))
		if d, l, n := t.front.dials.Load(), t.front.webSocketStreams.Load(), len(t.app.upgradeRequests()); d != 2 || l != 2 || n != 2 {
			t.Errorf("%d connections and %d lanes for %d legs, want one of each", d, l, n)
		}
		if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Resumed") != "1" || h.Get("Shardway-WebSocket-Gap") != "" {
			t.Errorf("the next leg says %v", h)
		}
		_ = c.Close()
	})
}

// A mux session that drains, for example because the secret was replaced, carries its streams until
// they end. New upstream connections use another session.
func TestRelaysSurviveDrainingSession(t *testing.T) {
	overWebSocketStreams(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		before := t.front.lastWebSocketStream.Load()
		t.front.webSocketSessions.Load().Renew()
		time.Sleep(time.Second) // dials to one address are at least this far apart
		c.sendText("one")
		t.until("it is carried", t.app.has(1))
		other := t.front.socket()
		if !before.SessionDraining() || before.SessionConn() == t.front.lastWebSocketStream.Load().SessionConn() {
			t.Error("the next socket goes by the retired trunk")
		}
		t.move(t.a, t.b)
		c.sendText("two")
		t.until("it goes on", t.app.has(2))
		for _, h := range t.app.upgradeRequests() {
			if h.Get("Shardway-WebSocket-Gap") != "" {
				t.Errorf("a leg begins with a gap: %v", h)
			}
		}
		for _, c := range []*client{c, other} {
			_ = c.Close()
		}
	})
}

// A broken mux session breaks its upstream connections, like a broken path. Each WebSocket resumes
// with a gap on another session.
func TestRelaysOfBrokenSessionResumeWithGap(t *testing.T) {
	for name, err := range map[string]error{"broken": errors.New("cut"), "deaf": proxy.ErrPathDead} {
		t.Run(name, func(t *testing.T) {
			overWebSocketStreams(t, plainChat, func(t *socketTest) {
				const many = 8
				var all []*client
				for range many {
					all = append(all, t.front.socket())
				}
				t.front.lastWebSocketStream.Load().FailSession(err)
				t.until("all have another leg", func() bool { return len(t.app.upgradeRequests()) == 2*many })
				for _, c := range all {
					c.sendText("on")
				}
				t.until("all go on", t.app.has(many))
				for i, h := range t.app.upgradeRequests()[many:] {
					if h.Get("Shardway-WebSocket-Gap") != "1" || h.Get("Shardway-WebSocket-Resumed") != "1" {
						t.Errorf("leg %d: %v", many+i, h)
					}
				}
				for _, c := range all {
					_ = c.Close()
				}
			})
		})
	}
}

// The stream of a WebSocket that the app did not accept is closed and not reused for requests.
func TestWebSocketStreamIsUsedOnce(t *testing.T) {
	overWebSocketStreams(t, func() *chat {
		return &chat{answer: func(int, http.Header) string {
			return "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
		}}
	}, func(t *socketTest) {
		t.front.UseStreamsForAll()
		c := t.front.dial()
		for i := range int32(3) {
			c.send("%s", socketRequest)
			if res, _ := c.answer("GET"); res.StatusCode != 401 {
				t.Fatal(res.Status)
			}
			synctest.Wait()
			if n, l := t.a.Connections(), t.front.webSocketStreams.Load(); n != 0 || l != i+1 {
				t.Errorf("%d lanes are open after %d sockets that were turned away, %d were opened", n, i+1, l)
			}
		}
		_ = c.Close()
	})
}

// The path of an idle WebSocket is pinged, once for all streams. So the next upstream connection finds
// a working session, and a dead path is detected.
func TestWebSocketPathIsPinged(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		if t.local || t.lanes {
			return
		}
		pings := make(chan struct{}, 1000)
		t.front.tap = func(c net.Conn) net.Conn { return tapped{c, pings} }
		t.a.acceptMuxSessions()
		t.front.enableWebSocketStreams()
		var all []*client
		for range 20 {
			all = append(all, t.front.socket())
		}
		time.Sleep(time.Second)
		for len(pings) > 0 {
			<-pings
		}
		time.Sleep(10 * time.Second)
		if n := len(pings); n < 40 || n > 51 {
			t.Errorf("%d pings in ten seconds, want about five a second, whatever the number of lanes", n)
		}
		for _, c := range all {
			_ = c.Close()
		}
	})
}

// On real sockets with TLS, a WebSocket on a stream transfers the same data as on a connection, in
// both directions.
func TestEncryptedStreamsServeWebSockets(t *testing.T) {
	ingress, _ := overStreams(sealedPair)(t, leanApp(t))
	c := ingress.socket()
	if text := c.receiveText(); text != "hi" {
		t.Errorf("message = %q", text)
	}
	if d, l := ingress.dials.Load(), ingress.webSocketStreams.Load(); d != 0 || l != 1 {
		t.Errorf("%d connections and %d lanes, want one lane", d, l)
	}
	// The test sends no Close frame, because this app would not answer it before its timeout.
}

// A resumable WebSocket that was idle for longer than the write timeout is handed over without a gap,
// because closing the sending side does not wait for a write.
func TestIdleWebSocketIsHandedOverWithoutGap(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("the app has it", t.app.has(1))
		time.Sleep(70 * time.Second)
		t.move(t.a, t.b)
		c.sendText("two")
		t.until("it goes on", t.app.has(2))
		for i, h := range t.app.upgradeRequests() {
			if g := h.Get("Shardway-WebSocket-Gap"); g != "" {
				t.Errorf("leg %d has gap %q", i, g)
			}
		}
		_ = c.Close()
	})
}
