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

// Coder is the argument for an app with coder/websocket. This library answers a Close
// frame within Read, so the app stores its state after each message.
const Coder = "coder"

// coderApp replies to each number with one of its own.
type coderApp struct{ *app }

func (a coderApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := a.accept(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer conn.register()()
	conn.record("begin", conn.N)
	conn.save(conn.N)
	w.Header().Set("Shardway-WebSocket", "keep")
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err == nil {
		defer func() { _ = ws.CloseNow() }()
		var closed bool
		if closed, err = conn.reply(r.Context(), ws); closed {
			return
		}
	}
	outcome := "broken"
	if websocket.CloseStatus(err) == websocket.StatusServiceRestart {
		outcome = "moved"
	}
	conn.writeEntry(entry{At: conn.At, Client: conn.Client, Session: conn.Session, Conn: conn.Conn, Gap: conn.Gap, What: outcome, N: conn.N})
}

// reply replies until the client asks for a close, or the connection ends otherwise.
func (c *appConn) reply(ctx context.Context, ws *websocket.Conn) (closed bool, err error) {
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			return false, err
		}
		text, last := strings.CutPrefix(string(b), ClosePrefix)
		n, _ := strconv.ParseUint(text, 10, 64) // Check detects a zero.
		c.record("got", n)
		if last {
			c.record("closed", c.N)
			return true, ws.Close(websocket.StatusNormalClosure, "")
		}
		c.N++
		c.save(c.N)
		if err := ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, "%d %d %d", c.Conn, c.N, n)); err != nil {
			return false, err
		}
	}
}
