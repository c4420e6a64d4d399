package proxy_test

import (
	"fmt"
	"net"
	"testing"

	"shardway/proxy/wsframe"
)

// An app may end a socket in the moment in which its shard begins to move: its Close crosses
// ours. It was taken for the answer, and the client's socket went on. What an app says in
// answer is our code, none, or 1000, as some libraries say to all, behind the Pong to the Ping
// that goes before. What has no such Pong is the app's own, and 1012 asks for another leg then,
// with a gap: there may be messages that the app has not read.
func TestAppCloseCrossesMove(t *testing.T) {
	type end struct {
		final int // code of the client's end; zero: it goes on
		gap   string
	}
	for payload, ends := range map[string]struct{ answer, crosses end }{
		"\x0f\xa0": {end{final: 4000}, end{final: 4000}},
		"\x03\xf0": {end{final: 1008}, end{final: 1008}},
		"\x03\xe9": {end{final: 1001}, end{final: 1001}},
		"\x03\xf4": {end{}, end{gap: "1"}},
		"\x03\xe8": {end{}, end{final: 1000}},
		"":         {end{}, end{final: wsframe.NoCode}},
	} {
		for _, deaf := range []bool{false, true} {
			want := ends.answer
			if deaf {
				want = ends.crosses
			}
			t.Run(fmt.Sprintf("%x crosses=%v", payload, deaf), func(t *testing.T) {
				inSockets(t, func() *chat {
					return &chat{deaf: deaf, goodbye: func(conn net.Conn, code int) bool {
						_, _ = conn.Write(message(0x88, false, payload))
						return code == 1012
					}}
				}, func(t *socketTest) { t.closesInAMove(want.final, want.gap) })
			})
		}
	}
}

// closesInAMove moves the shard of an app that ends the old leg in its own way.
func (w *socketTest) closesInAMove(final int, gap string) {
	c := w.front.socket()
	c.sendText("one")
	w.until("got", w.app.has(1))
	w.move(w.a, w.b)
	if final != 0 {
		c.wantClosed(final)
		if n := len(w.app.upgradeRequests()); n != 1 {
			w.Errorf("%d legs", n)
		}
		return
	}
	c.sendText("two")
	w.until("got", w.app.has(2))
	if h := w.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != gap {
		w.Errorf("gap %q, want %q: %v", h.Get("Shardway-WebSocket-Gap"), gap, h)
	}
	_, _ = w.app.conn(1).Write(message(0x81, false, "next"))
	if got := c.receiveText(); got != "next" { // and no Pong
		w.Errorf("got %q", got)
	}
	_ = c.Close()
}
