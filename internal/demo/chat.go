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

// chatPath is where the rooms are: a page, and its WebSocket.
const chatPath = "/chat"

// chatPage is the page of docs/apps/chat.md too.
//
//go:embed chat.html
var chatPage []byte

func answerChat(ctx *fasthttp.RequestCtx) { answerHTML(ctx, chatPage) }

func asksSocket(h *fasthttp.RequestHeader) bool {
	return h.IsGet() && strings.EqualFold(string(h.Peek("Upgrade")), "websocket")
}

// switches answers 101, and that the socket may stay while its shard moves: a page is asked
// how far it is when a leg begins, and says again what has not come back.
func (a *App) switches(ctx *fasthttp.RequestCtx, x Answer) {
	key := string(ctx.Request.Header.Peek("Sec-WebSocket-Key"))
	ctx.SetStatusCode(fasthttp.StatusSwitchingProtocols)
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Accept": acceptOf(key), "Shardway-WebSocket": "keep",
	} {
		ctx.Response.Header.Set(name, value)
	}
	ctx.Hijack(func(conn net.Conn) {
		_ = conn.SetDeadline(time.Time{}) // that of its request
		l := &chatLeg{a: a, x: x, conn: conn, stop: make(chan struct{})}
		l.run()
	})
}

// chatLeg is a connection from a node for the socket of a page. One goroutine reads it, and
// another one tells what is said in the room.
type chatLeg struct {
	a    *App
	x    Answer
	stop chan struct{}
	tell sync.WaitGroup

	mu   sync.Mutex
	conn net.Conn // writes are under mu
}

// run ends with the connection, or with a Close: the node's, which is answered behind all
// that has been said before it, or ours.
func (l *chatLeg) run() {
	code := l.read()
	close(l.stop)
	l.tell.Wait()
	if code != 0 {
		l.write(opClose, binary.BigEndian.AppendUint16(nil, code))
	}
}

// read takes what comes, and returns the code of the Close to send; zero: none.
func (l *chatLeg) read() (code uint16) {
	ask, err := json.Marshal(map[string]any{"ask": true, "node": l.x.Node})
	if err != nil || !l.write(opText, ask) {
		return 0
	}
	told := false
	for r := bufio.NewReader(l.conn); ; {
		f, err := readFrame(r)
		switch {
		case err != nil:
			return closeOf(err)
		case f.op == opClose:
			return f.code()
		case f.op == opPing:
			l.write(opPong, f.payload)
			continue
		case f.op != opText:
			continue
		}
		var m struct {
			chatLine
			Have *int `json:"have"`
		}
		switch err := json.Unmarshal(f.payload, &m); {
		case err != nil:
			return closeUnfit
		case m.Have == nil:
			if l.a.say(l.x, m.chatLine) != nil {
				return closeAgain
			}
		case !told:
			told = true
			l.tell.Go(func() { l.tells(*m.Have) })
		}
	}
}

// tells sends the lines behind those that the page has, until the leg ends.
func (l *chatLeg) tells(have int) {
	for {
		lines, news, err := l.a.since(l.x, have)
		if err != nil {
			return // its node ends the leg
		}
		for _, line := range lines {
			b, err := json.Marshal(line)
			if err != nil || !l.write(opText, b) {
				return
			}
			have = line.N
		}
		select {
		case <-news:
		case <-l.stop:
			return
		}
	}
}

// write sends a frame. What cannot be sent ends the connection, which read sees.
func (l *chatLeg) write(op byte, payload []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, err := l.conn.Write(appendFrame(nil, op, payload))
	if err != nil {
		_ = l.conn.Close()
	}
	return err == nil
}
