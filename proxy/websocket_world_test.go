package proxy_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/proxy/wsframe"
)

// chat is an app with resumable WebSockets. It may run behind several nodes. It records the messages
// of clients and sends numbered messages of its own. The numbers continue from one upstream connection
// to the next, like data that a real app stores.
type chat struct {
	t     *testing.T
	every time.Duration // interval between two messages of the app; zero: it sends none
	size  int           // padding of each message, in addition to its number
	deaf  bool          // does not answer Pings

	answer  func(n int, head http.Header) string // header lines of the 101 of upstream connection n, or the whole response; nil: the correct lines
	goodbye func(conn net.Conn, code int) bool   // answers a Close frame; nil or false: the default reply

	mu    sync.Mutex
	heads []http.Header
	got   []string
	sent  int
	now   int // upstream connections now
	most  int // most upstream connections at the same time
	conns []net.Conn
}

// serve serves one connection of the app.
func (a *chat) serve(conn net.Conn, r *bufio.Reader) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	time.Sleep(time.Microsecond) // until all goroutines have seen the end of earlier connections
	a.mu.Lock()
	n := len(a.heads)
	a.heads = append(a.heads, req.Header)
	a.conns = append(a.conns, conn)
	a.now++
	a.most = max(a.most, a.now)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.now--
		a.mu.Unlock()
	}()
	sum := sha1.Sum([]byte(req.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	lines := "Shardway-WebSocket: keep\r\nSec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	if a.answer != nil {
		if other := a.answer(n, req.Header); strings.HasPrefix(other, "HTTP/") {
			_, _ = io.WriteString(conn, other)
			return
		} else if other == "silence" {
			_, _ = io.Copy(io.Discard, r)
			return
		} else if other != "" {
			lines = other
		}
	}
	if _, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+lines+"\r\n"); err != nil {
		return
	}
	over, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		a.speak(conn, over)
	}()
	defer func() { <-told }()
	code, err := a.listen(conn, r)
	close(over)
	<-told
	if err == nil && (a.goodbye == nil || !a.goodbye(conn, code)) {
		_, _ = conn.Write(wsframe.AppendClose(nil, code, "", false))
	}
}

// speak sends numbered messages until over is closed.
func (a *chat) speak(conn net.Conn, over <-chan struct{}) {
	if a.every == 0 {
		return
	}
	tick := time.NewTicker(a.every)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		a.mu.Lock()
		n := a.sent
		a.sent++
		a.mu.Unlock()
		if _, err := conn.Write(message(0x81, false, fmt.Sprintf("%d %s", n, strings.Repeat("x", a.size)))); err != nil {
			return
		}
	}
}

// listen records messages and answers Pings until a Close frame arrives. It returns the code of that
// frame.
func (a *chat) listen(conn net.Conn, r *bufio.Reader) (code int, err error) {
	var begun []byte // the incomplete message; control frames may arrive between its frames
	for {
		first, p, err := readFrame(r)
		op := first & 15
		switch {
		case err != nil:
			return 0, err
		case op == wsframe.OpClose && len(p) < 2:
			return wsframe.NoCode, nil
		case op == wsframe.OpClose:
			return int(binary.BigEndian.Uint16(p)), nil
		case op == wsframe.OpPing && !a.deaf:
			_, _ = conn.Write(message(0x8a, false, string(p))) // fails if the connection is already broken
			continue
		case op > 8:
			continue
		}
		if begun = append(begun, p...); first&0x80 != 0 {
			a.mu.Lock()
			a.got = append(a.got, string(begun))
			a.mu.Unlock()
			begun = nil
		}
	}
}

// upgradeRequests returns the headers of the requests that the app has received.
func (a *chat) upgradeRequests() []http.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]http.Header(nil), a.heads...)
}

// conn returns the app's connection of upstream connection n.
func (a *chat) conn(n int) net.Conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conns[n]
}

// wantGot fails the test unless the app has received exactly these messages, in this order.
func (a *chat) wantGot(want ...string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if fmt.Sprint(a.got) != fmt.Sprint(want) {
		a.t.Errorf("the app got %q, want %q", a.got, want)
	}
}

// has returns a condition that reports whether the app has received n messages.
func (a *chat) has(n int) func() bool {
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.got) >= n
	}
}

// message returns an encoded frame.
func message(first byte, masked bool, payload string) []byte {
	b := []byte{first}
	mask := byte(0)
	if masked {
		mask = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	if masked {
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, payload...)
}

// readMessage reads a message, joined from its frames, or a control frame.
func readMessage(r *bufio.Reader) (op byte, payload []byte, err error) {
	for {
		first, p, err := readFrame(r)
		if err != nil {
			return 0, nil, err
		}
		if first&15 >= 8 {
			return first & 15, p, nil
		}
		if first&15 != 0 {
			op = first & 15
		}
		if payload = append(payload, p...); first&0x80 != 0 {
			return op, payload, nil
		}
	}
}

func readFrame(r *bufio.Reader) (first byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := int(head[1] & 127)
	long := 0
	switch size {
	case 126:
		long = 2
	case 127:
		long = 8
	}
	if long > 0 {
		size = 0
		for range long {
			b, err := r.ReadByte()
			if err != nil {
				return 0, nil, err
			}
			size = size<<8 | int(b)
		}
	}
	var key [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, key[:]); err != nil {
			return 0, nil, err
		}
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	for i := range payload {
		payload[i] ^= key[i%4]
	}
	return head[0], payload, nil
}

const socketRequest = "GET /room HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nShardway-WebSocket: mine\r\nShardway-WebSocket-Gap: 1\r\n\r\n"

// socket opens a WebSocket to a node.
func (n *node) socket() *client {
	n.t.Helper()
	c := n.dial()
	c.send("%s", socketRequest)
	head, err := readHead(c.r)
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101") || strings.Contains(head, "Shardway-") {
		n.t.Fatalf("head = %q, %v", head, err)
	}
	return c
}

// sendText sends a text message.
func (c *client) sendText(text string) {
	c.t.Helper()
	if _, err := c.Write(message(0x81, true, text)); err != nil {
		c.t.Fatalf("send %q: %v", text, err)
	}
}

// receiveText reads one text message, or fails the test.
func (c *client) receiveText() string {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Minute))
	op, p, err := readMessage(c.r)
	if err != nil || op != wsframe.OpText {
		c.t.Fatalf("message = %x %q, %v", op, p, err)
	}
	return string(p)
}

// wantClosed fails the test unless the client's WebSocket is closed now with this code. Zero means
// without a code.
func (c *client) wantClosed(code int) {
	c.t.Helper()
	c.wantClosedFor(code, "")
}

// wantClosedFor is wantClosed with the close reason. An empty reason matches any.
func (c *client) wantClosedFor(code int, why string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Minute))
	for {
		op, p, err := readMessage(c.r)
		switch {
		case err == nil && op != wsframe.OpClose:
			continue
		case err != nil && code == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
			return
		case err == nil && code == wsframe.NoCode && len(p) == 0:
			c.closed()
			return
		case err != nil || len(p) < 2 || int(binary.BigEndian.Uint16(p)) != code:
			c.t.Fatalf("closed with %q, %v; want %d", p, err, code)
		case why != "" && string(p[2:]) != why:
			c.t.Errorf("closed for %q, want %q", p[2:], why)
		}
		c.closed()
		return
	}
}

func newReader(conn net.Conn) *bufio.Reader { return bufio.NewReader(conn) }

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
