package demo

import (
	"bufio"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// chatPath is the path of the chat page and of its WebSocket.
const chatPath = "/chat"

// chatPage is the page that docs/apps/chat.md shows.
//
//go:embed chat.html
var chatPage []byte

func writeChatPage(ctx *fasthttp.RequestCtx) { writeHTML(ctx, chatPage) }

func isWebSocketUpgrade(h *fasthttp.RequestHeader) bool {
	return h.IsGet() && strings.EqualFold(string(h.Peek("Upgrade")), "websocket")
}

// upgrade accepts a WebSocket and declares it resumable. For each new connection, the app asks the page
// for the number of its last line. The page then sends its unconfirmed lines again.
func (a *App) upgrade(ctx *fasthttp.RequestCtx, request Answer) {
	key := string(ctx.Request.Header.Peek("Sec-WebSocket-Key"))
	ctx.SetStatusCode(fasthttp.StatusSwitchingProtocols)
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Accept": acceptKey(key), "Shardway-WebSocket": "keep",
	} {
		ctx.Response.Header.Set(name, value)
	}
	ctx.Hijack(func(conn net.Conn) {
		_ = conn.SetDeadline(time.Time{}) // clears the deadline of the request
		chat := &chatConn{app: a, request: request, conn: conn, stop: make(chan struct{})}
		chat.run()
	})
}

// chatConn is the upstream connection of the WebSocket of a page. One goroutine reads it, and another one
// sends the lines of the room.
type chatConn struct {
	app     *App
	request Answer         // node, shard, epoch and key of the upgrade request
	stop    chan struct{}  // closed when read has ended
	sending bool           // sendLines was started; used by read only
	sender  sync.WaitGroup // the goroutine of sendLines

	mu   sync.Mutex
	conn net.Conn // mu must be held for writes
}

// run serves the connection. It returns when the connection fails, or after a Close frame of either
// side. It sends its own Close frame after all lines.
func (c *chatConn) run() {
	code := c.read()
	close(c.stop)
	c.sender.Wait()
	if code != 0 {
		c.write(opClose, binary.BigEndian.AppendUint16(nil, code))
	}
}

// read handles received frames. It returns the code of the Close frame to send; zero means none.
func (c *chatConn) read() (code uint16) {
	ask, err := json.Marshal(map[string]any{"ask": true, "node": c.request.Node})
	if err != nil || !c.write(opText, ask) {
		return 0
	}
	reader := bufio.NewReader(c.conn)
	for {
		received, err := readFrame(reader)
		if err != nil {
			return closeCode(err)
		}
		switch received.op {
		case opClose:
			return received.code()
		case opPing:
			c.write(opPong, received.payload)
		case opText:
			if code := c.handleMessage(received.payload); code != 0 {
				return code
			}
		}
	}
}

// handleMessage handles a message from the page. The message is either a new line of the chat, or the
// number of the last line that the page has. In the second case, the page gets all later lines. It
// returns the code of the Close frame to send; zero means none.
func (c *chatConn) handleMessage(payload []byte) (code uint16) {
	var message struct {
		chatLine
		Have *int `json:"have"`
	}
	if json.Unmarshal(payload, &message) != nil {
		return closeInvalid
	}
	if message.Have == nil {
		if c.app.addLine(c.request, message.chatLine) != nil {
			return closeRestart
		}
		return 0
	}
	if !c.sending {
		c.sending = true
		c.sender.Go(func() { c.sendLines(*message.Have) })
	}
	return 0
}

// sendLines sends the lines after number have until the connection ends.
func (c *chatConn) sendLines(have int) {
	for {
		lines, news, err := c.app.linesAfter(c.request, have)
		if err != nil {
			return // the app no longer holds the shard, and the node closes the connection
		}
		for _, line := range lines {
			b, err := json.Marshal(line)
			if err != nil || !c.write(opText, b) {
				return
			}
			have = line.N
		}
		select {
		case <-news:
		case <-c.stop:
			return
		}
	}
}

// write sends a frame. If this fails, it closes the connection, so that read returns.
func (c *chatConn) write(op byte, payload []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, err := c.conn.Write(appendFrame(nil, op, payload))
	if err != nil {
		_ = c.conn.Close()
	}
	return err == nil
}
