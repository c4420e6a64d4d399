//go:build linux

package wsresume

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/coder/websocket" //nolint:depguard // only tests use this package
)

// Coder is the argument for an app by coder/websocket, which answers Close within Read: what
// it does between two of those has been done before.
const Coder = "coder"

// byCoder is an app that answers each number with one of its own.
type byCoder struct{ *app }

func (a byCoder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l, err := a.leg(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer l.follows()()
	l.notes("begin", l.N)
	l.save(l.N)
	w.Header().Set("Shardway-WebSocket", "keep")
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err == nil {
		defer func() { _ = ws.CloseNow() }()
		var closed bool
		if closed, err = l.answers(r.Context(), ws); closed {
			return
		}
	}
	how := "broken"
	if websocket.CloseStatus(err) == websocket.StatusServiceRestart {
		how = "moved"
	}
	l.write(note{At: l.At, Client: l.Client, Socket: l.Socket, Leg: l.Leg, Gap: l.Gap, What: how, N: l.N})
}

// answers answers until the client asks for the end, or the leg ends otherwise.
func (l *appLeg) answers(ctx context.Context, ws *websocket.Conn) (closed bool, err error) {
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			return false, err
		}
		text, last := strings.CutPrefix(string(b), Ask)
		n, _ := strconv.ParseUint(text, 10, 64) // the judge is told of a zero
		l.notes("got", n)
		if last {
			l.notes("closed", l.N)
			return true, ws.Close(websocket.StatusNormalClosure, "")
		}
		l.N++
		l.save(l.N)
		if err := ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, "%d %d %d", l.Leg, l.N, n)); err != nil {
			return false, err
		}
	}
}
