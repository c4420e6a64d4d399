package proxy_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"shardway/proxy"
)

// talk is an app that accepts WebSockets and echoes messages. When a connection ends, it sends the
// error on ended.
func talk(t *testing.T) (addr string, ended <-chan error) {
	t.Helper()
	errs := make(chan error, 8)
	return webApp(t, func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			errs <- err
			return
		}
		ws.SetReadLimit(-1)
		for {
			kind, b, err := ws.Read(r.Context())
			if err == nil {
				err = ws.Write(r.Context(), kind, b)
			}
			if err != nil {
				errs <- err
				return
			}
		}
	}), errs
}

func (n *node) websocket(ctx context.Context) *websocket.Conn {
	n.t.Helper()
	ws, _, err := websocket.Dial(ctx, "ws://"+n.addr+"/", &websocket.DialOptions{HTTPHeader: http.Header{"X-Shard-Key": {"k"}}}) //nolint:bodyclose // there is none after 101
	if err != nil {
		n.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	return ws
}

// Client and app get a Close frame with code 1012 when the shard moves, whether the WebSocket is idle
// or busy.
func TestWebSocketGetsCloseWhenShardMoved(t *testing.T) {
	move := func(front, owner *node) {
		owner.swap(2, 2, remote("other", 2))
		if front != owner {
			front.swap(2, 2, remote("other", 2))
		}
	}
	told := 0
	defer func() {
		if told <= 6 {
			t.Errorf("no client was told between messages")
		}
	}()
	for way, start := range ways() {
		for name, end := range map[string]func(front, owner *node){
			"moved": move,
			"cut":   func(_, owner *node) { owner.CancelShards(allShards, "draining") },
		} {
			for _, busy := range []bool{false, true} {
				t.Run(way+" "+name, func(t *testing.T) {
					addr, ended := talk(t)
					front, owner := start(t, addr, func(o *proxy.Options) { o.StreamGrace = -1 })
					ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
					defer cancel()
					ws := front.websocket(ctx)
					defer func() { _ = ws.CloseNow() }()
					say := func() error { return ws.Write(ctx, websocket.MessageBinary, make([]byte, 100+rand.IntN(300_000))) }
					if err := say(); err != nil {
						t.Fatal(err)
					}
					if _, _, err := ws.Read(ctx); err != nil {
						t.Fatal(err)
					}
					if busy {
						go func() {
							for say() == nil {
							}
						}()
						for range 5 {
							if _, _, err := ws.Read(ctx); err != nil {
								t.Fatal(err)
							}
						}
					}
					end(front, owner)
					var err error
					for err == nil {
						_, _, err = ws.Read(ctx)
					}
					switch code := websocket.CloseStatus(err); {
					case code == websocket.StatusServiceRestart:
						told++
					// On a slow machine the time ends in the middle of a message.
					case !busy || code != -1:
						t.Errorf("the client was told %v, want 1012", err)
					}
					err = <-ended
					code := websocket.CloseStatus(err)
					// An app that is writing may see the end of its connection before it sees the
					// Close frame.
					if code != websocket.StatusServiceRestart && (!busy || code != -1) {
						t.Errorf("the app was told %v, want 1012", err)
					}
					until(t, "released", func() bool { return owner.running.Load() == 0 })
				})
			}
		}
	}
}

func TestWebSocketClosedByEndpointIsClosedOnce(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr, ended := talk(t)
			front, owner := start(t, addr)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			ws := front.websocket(ctx)
			if err := ws.Close(websocket.StatusGoingAway, "bye"); err != nil {
				t.Error(err)
			}
			if err := <-ended; websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("the app was told %v", err)
			}
			until(t, "released", func() bool { return owner.running.Load() == 0 })
		})
	}
}

// A WebSocket that is aborted inside a frame gets no Close frame, because a frame must not be inserted
// into another one.
func TestNoCloseIsInsertedIntoFrame(t *testing.T) {
	addr, _ := talk(t)
	n := newNode(t, "a", addr, func(o *proxy.Options) { o.StreamGrace = -1 })
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if _, err := readHead(c.r); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte{0x82, 0x85, 0, 0, 0, 0, 'h'}) // 1 of 5 bytes
	n.swap(2, 2, remote("other", 2))
	got, _ := io.ReadAll(c.r)
	want := append([]byte{0x88, 17, 1012 >> 8, 1012 & 0xff}, "the shard moved"...)
	if !bytes.Equal(got, want) {
		t.Errorf("the client got %x, want the close frame %x", got, want)
	}
	until(t, "released", func() bool { return n.running.Load() == 0 })
}
