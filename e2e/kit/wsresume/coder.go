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

// coderApp simulates an app that uses the library coder/websocket. It replies to each number of the client
// with a number of its own.
type coderApp struct{ *app }

// ServeHTTP serves one upstream connection, and logs its events for Check.
func (a coderApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := a.accept(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	unregister := conn.register()
	defer unregister()
	conn.logEvent(eventBegin, conn.lastSent)
	conn.storeLastSent(conn.lastSent)
	w.Header().Set("Shardway-WebSocket", "keep")
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err == nil {
		defer func() { _ = socket.CloseNow() }()
		var closed bool
		if closed, err = conn.reply(r.Context(), socket); closed {
			return
		}
	}
	outcome := eventBroken
	if websocket.CloseStatus(err) == websocket.StatusServiceRestart {
		outcome = eventMoved
	}
	// Use the time of the last message: the library has already replied to the Close frame, so the session's
	// next connection may have started.
	conn.appendToLog(entry{Time: conn.Time, Client: conn.Client, Session: conn.Session, ConnIndex: conn.ConnIndex, Gap: conn.Gap, Event: outcome, MessageNumber: conn.lastSent})
}

// reply replies to messages until the client asks for a close, or the connection ends for another reason.
func (c *appConn) reply(ctx context.Context, socket *websocket.Conn) (closed bool, err error) {
	for {
		_, data, err := socket.Read(ctx)
		if err != nil {
			return false, err
		}
		text, isLast := strings.CutPrefix(string(data), ClosePrefix)
		number, _ := strconv.ParseUint(text, 10, 64) // 0 on error; Check reports it
		c.logEvent(eventReceived, number)
		if isLast {
			c.logEvent(eventClosed, c.lastSent)
			return true, socket.Close(websocket.StatusNormalClosure, "")
		}
		c.lastSent++
		c.storeLastSent(c.lastSent)
		if err := socket.Write(ctx, websocket.MessageText, fmt.Appendf(nil, "%d %d %d", c.ConnIndex, c.lastSent, number)); err != nil {
			return false, err
		}
	}
}
