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

// said is what a page hears.
type said struct {
	Ask      bool
	Node     string
	N, Seq   int
	Me, Text string
}

// leg is a connection that a node makes for a page.
type leg struct {
	t *testing.T
	*websocket.Conn
}

// dial opens a leg for alice in an epoch of shard 7.
func dial(t *testing.T, app *demo.App, epoch string) leg {
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
	l := leg{t, ws}
	if m := l.hear(); !m.Ask || m.Node != "n2" {
		t.Errorf("a leg begins with %+v, want a question", m)
	}
	return l
}

func (l leg) hear() (m said) {
	l.t.Helper()
	if err := wsjson.Read(l.t.Context(), l.Conn, &m); err != nil {
		l.t.Fatal(err)
	}
	return m
}

func (l leg) say(m map[string]any) {
	l.t.Helper()
	if err := wsjson.Write(l.t.Context(), l.Conn, m); err != nil {
		l.t.Fatal(err)
	}
}

func (l leg) wantLine(n int, text string) {
	l.t.Helper()
	if m := l.hear(); m.N != n || m.Text != text {
		l.t.Errorf("heard %+v, want line %d: %q", m, n, text)
	}
}

func line(seq int, text string) map[string]any {
	return map[string]any{"me": "a", "seq": seq, "text": text}
}

// A page says again what has not come back; each line counts once, in its order, in whatever
// leg it comes.
func TestRoomTakesEachLineOnce(t *testing.T) {
	dir := t.TempDir()
	one, two := demo.NewApp(dir), demo.NewApp(dir)
	hook(t, one, "acquire", 1, 7, 3)
	l := dial(t, one, "3")
	l.say(line(1, "one"))
	l.say(map[string]any{"me": "a", "have": 0})
	l.say(line(1, "one"))
	l.say(line(3, "too early"))
	l.say(line(2, "two"))
	l.wantLine(1, "one")
	l.wantLine(2, "two")
	l.say(line(3, "three"))
	if err := l.Close(websocket.StatusServiceRestart, ""); err != nil {
		t.Errorf("the app answers Close with %v", err)
	}
	hook(t, one, "release", 2, 7, 3)

	hook(t, two, "acquire", 1, 7, 5)
	l = dial(t, two, "5")
	l.say(map[string]any{"me": "a", "have": 2})
	l.wantLine(3, "three") // which came before Close
	l.say(line(3, "three"))
	l.say(line(4, strings.Repeat("long ", 100)))
	l.wantLine(4, strings.Repeat("long ", 100))
	if w, a := request(t, two, "7", "5", "alice"); a.Count != 1 {
		t.Errorf("what is said counts as a request: %d (%d)", a.Count, w.StatusCode())
	}
}

// What is said to an app that has lost the shard asks for another leg.
func TestRoomOfAnotherOwnerTakesNothing(t *testing.T) {
	app := demo.NewApp(t.TempDir())
	hook(t, app, "acquire", 1, 7, 3)
	l := dial(t, app, "3")
	hook(t, app, "lost", 2, 7, 3)
	l.say(line(1, "one"))
	wantEnd(t, l, websocket.StatusServiceRestart)

	hook(t, app, "acquire", 3, 7, 5)
	l = dial(t, app, "5")
	l.say(map[string]any{"me": "a", "have": 0})
	l.say(line(1, "anew"))
	l.wantLine(1, "anew")
}

// What no page says ends its socket.
func TestRoomRefusesWhatNoPageSays(t *testing.T) {
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
			l := dial(t, app, "3")
			if err := l.Ping(l.CloseRead(t.Context())); err != nil {
				t.Errorf("a ping is answered with %v", err)
			}
			l = dial(t, app, "3")
			if err := l.Write(t.Context(), websocket.MessageText, []byte(tt.text)); err != nil {
				t.Fatal(err)
			}
			wantEnd(t, l, tt.code)
		})
	}
}

func wantEnd(t *testing.T, l leg, code websocket.StatusCode) {
	t.Helper()
	if _, b, err := l.Read(context.WithoutCancel(t.Context())); websocket.CloseStatus(err) != code {
		t.Errorf("the leg goes on with %q, %v; want Close %d", b, err, code)
	}
}
