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

// ServeHTTP serves one upstream connection.
func (a coderApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := a.accept(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer conn.register()()
	conn.record("begin", conn.Number)
	conn.save(conn.Number)
	w.Header().Set("Shardway-WebSocket", "keep")
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err == nil {
		defer func() { _ = socket.CloseNow() }()
		var closed bool
		if closed, err = conn.reply(r.Context(), socket); closed {
			return
		}
	}
	outcome := "broken"
	if websocket.CloseStatus(err) == websocket.StatusServiceRestart {
		outcome = "moved"
	}
	// The entry has the time of the last message. The library has answered the Close frame before, so the
	// next connection of the session may have begun already.
	conn.writeEntry(entry{Time: conn.Time, Client: conn.Client, Session: conn.Session, ConnNumber: conn.ConnNumber, Gap: conn.Gap, Event: outcome, Number: conn.Number})
}

// reply replies until the client asks for a close, or the connection ends otherwise.
func (c *appConn) reply(ctx context.Context, socket *websocket.Conn) (closed bool, err error) {
	for {
		_, data, err := socket.Read(ctx)
		if err != nil {
			return false, err
		}
		text, isLast := strings.CutPrefix(string(data), ClosePrefix)
		number, _ := strconv.ParseUint(text, 10, 64) // Check detects a zero.
		c.record("got", number)
		if isLast {
			c.record("closed", c.Number)
			return true, socket.Close(websocket.StatusNormalClosure, "")
		}
		c.Number++
		c.save(c.Number)
		if err := socket.Write(ctx, websocket.MessageText, fmt.Appendf(nil, "%d %d %d", c.ConnNumber, c.Number, number)); err != nil {
			return false, err
		}
	}
}
