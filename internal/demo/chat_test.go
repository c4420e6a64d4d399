package demo_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/valyala/fasthttp"

	"shardway/internal/demo"
)

// chatMessage is what a page hears.
type chatMessage struct {
	Ask      bool
	Node     string
	N, Seq   int
	Me, Text string
}

// chatConn is an upstream connection for a chat page.
type chatConn struct {
	t *testing.T
	*websocket.Conn
}

// dial opens an upstream connection for the key alice with an epoch of shard 7.
func dial(t *testing.T, app *demo.App, epoch string) chatConn {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &fasthttp.Server{Handler: app.Serve}
	go func() { _ = srv.Serve(ln) }() // until ln is closed
	t.Cleanup(func() { _ = ln.Close() })
	ws, res, err := websocket.Dial(t.Context(), "ws://"+ln.Addr().String()+"/chat", &websocket.DialOptions{HTTPHeader: http.Header{ //nolint:bodyclose // there is none after 101
		"Shardway-Shard": {"7"}, "Shardway-Epoch": {epoch}, "Shardway-Key": {"alice"}, "Shardway-Node": {"n2"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	if word := res.Header.Get("Shardway-WebSocket"); word != "keep" || res.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("the app answers %v, which keeps no socket", res.Header)
	}
	c := chatConn{t, ws}
	if m := c.read(); !m.Ask || m.Node != "n2" {
		t.Errorf("the first message is %+v, want the question for the last line", m)
	}
	return c
}

func (c chatConn) read() (message chatMessage) {
	c.t.Helper()
	if err := wsjson.Read(c.t.Context(), c.Conn, &message); err != nil {
		c.t.Fatal(err)
	}
	return message
}

func (c chatConn) send(m map[string]any) {
	c.t.Helper()
	if err := wsjson.Write(c.t.Context(), c.Conn, m); err != nil {
		c.t.Fatal(err)
	}
}

func (c chatConn) wantLine(n int, text string) {
	c.t.Helper()
	if m := c.read(); m.N != n || m.Text != text {
		c.t.Errorf("received %+v, want line %d: %q", m, n, text)
	}
}

func line(seq int, text string) map[string]any {
	return map[string]any{"me": "a", "seq": seq, "text": text}
}

// A page sends its unconfirmed lines again over the next connection.
func TestRoomAddsEachLineOnceAndInOrder(t *testing.T) {
	dir := t.TempDir()
	one, two := demo.NewApp(dir), demo.NewApp(dir)
	hook(t, one, "acquire", 1, 7, 3)
	c := dial(t, one, "3")
	c.send(line(1, "one"))
	c.send(map[string]any{"me": "a", "have": 0})
	c.send(line(1, "one"))
	c.send(line(3, "too early"))
	c.send(line(2, "two"))
	c.wantLine(1, "one")
	c.wantLine(2, "two")
	c.send(line(3, "three"))
	if err := c.Close(websocket.StatusServiceRestart, ""); err != nil {
		t.Errorf("the app answers Close with %v", err)
	}
	hook(t, one, "release", 2, 7, 3)

	hook(t, two, "acquire", 1, 7, 5)
	c = dial(t, two, "5")
	c.send(map[string]any{"me": "a", "have": 2})
	c.wantLine(3, "three") // which was sent before Close
	c.send(line(3, "three"))
	c.send(line(4, strings.Repeat("long ", 100)))
	c.wantLine(4, strings.Repeat("long ", 100))
	if w, a := request(t, two, "7", "5", "alice"); a.Count != 1 {
		t.Errorf("chat lines counted as requests: %d (%d)", a.Count, w.StatusCode())
	}
}

func TestLineAfterLostShardClosesConnection(t *testing.T) {
	app := demo.NewApp(t.TempDir())
	hook(t, app, "acquire", 1, 7, 3)
	c := dial(t, app, "3")
	hook(t, app, "lost", 2, 7, 3)
	c.send(line(1, "one"))
	wantEnd(t, c, websocket.StatusServiceRestart)

	hook(t, app, "acquire", 3, 7, 5)
	c = dial(t, app, "5")
	c.send(map[string]any{"me": "a", "have": 0})
	c.send(line(1, "again"))
	c.wantLine(1, "again")
}

func TestInvalidMessageClosesConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		code websocket.StatusCode
	}{
		"no JSON": {"hello", websocket.StatusInvalidFramePayloadData},
		"long":    {strings.Repeat("x", 3500), websocket.StatusMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			app := demo.NewApp(t.TempDir())
			hook(t, app, "acquire", 1, 7, 3)
			c := dial(t, app, "3")
			if err := c.Ping(c.CloseRead(t.Context())); err != nil {
				t.Errorf("a ping is answered with %v", err)
			}
			c = dial(t, app, "3")
			if err := c.Write(t.Context(), websocket.MessageText, []byte(tt.text)); err != nil {
				t.Fatal(err)
			}
			wantEnd(t, c, tt.code)
		})
	}
}

func wantEnd(t *testing.T, c chatConn, code websocket.StatusCode) {
	t.Helper()
	if _, b, err := c.Read(context.WithoutCancel(t.Context())); websocket.CloseStatus(err) != code {
		t.Errorf("received %q, %v; want Close %d", b, err, code)
	}
}
