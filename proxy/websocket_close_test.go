package proxy_test

import (
	"fmt"
	"net"
	"testing"

	"shardway/proxy/wsframe"
)

// An app may close a WebSocket at the moment when its shard begins to move, so that its Close frame
// crosses ours. Once, the app's frame was taken for the reply, and the client's WebSocket continued. A
// reply has our code, no code, or 1000 (some libraries always send that), and follows the Pong to the
// Ping that precedes our Close. A Close frame without such a Pong comes from the app itself. Code 1012
// then requests another upstream connection with a gap, because the app may not have read all
// messages.
func TestAppCloseCrossesMove(t *testing.T) {
	type end struct {
		final int // close code that the client gets; zero: the WebSocket continues
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

// closesInAMove moves the shard of an app that closes the old upstream connection in its own way.
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
