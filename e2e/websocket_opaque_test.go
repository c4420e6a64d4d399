//go:build linux

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"shardway/e2e/kit/cluster"
)

// greeting is the start of the JSON protocol of SignalR. It is inside a message, so
// another app that gets the rest of the connection does not know its state. Socket.IO
// does the same.
const greeting = `{"protocol":"json","version":1}` + "\x1e"

// opaqueApp does not support resumable WebSockets.
type opaqueApp struct {
	mu    sync.Mutex
	seen  []string // how each connection ended
	wrong []string
}

func (a *opaqueApp) record(list *[]string, format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}

func (a *opaqueApp) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Header.Get("Upgrade") == "websocket" {
		a.hub(w, req)
		return
	}
	if id := req.Header.Get("Shardway-WebSocket"); id != "" {
		a.record(&a.wrong, "a request that is no WebSocket has the WebSocket id %s", id)
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		a.record(&a.wrong, "%v", err)
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n")
	_, err = io.Copy(conn, buffered)
	a.record(&a.seen, "bytes: %v", err)
}

// hub greets a client once, and echoes its messages.
func (a *opaqueApp) hub(w http.ResponseWriter, req *http.Request) {
	c, err := websocket.Accept(w, req, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1})
	if err != nil {
		a.record(&a.wrong, "%v", err)
		return
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(1 << 20)
	if _, b, bad := c.Read(req.Context()); bad != nil || string(b) != greeting {
		a.record(&a.wrong, "a socket begins with %q, %v", b, bad)
		return
	}
	answer := []byte("{}\x1e")
	for kind := websocket.MessageText; ; {
		if err = c.Write(req.Context(), kind, answer); err != nil {
			break
		}
		if kind, answer, err = c.Read(req.Context()); err != nil {
			break
		}
	}
	a.record(&a.seen, "hub: %d", websocket.CloseStatus(err))
}

// joins opens a connection, greets, and echoes messages of all sizes. It returns a
// function that waits for the end of the connection.
func joins(t *testing.T, addr, key string) (ends func() error) {
	t.Helper()
	c, resp, err := websocket.Dial(t.Context(), "ws://"+addr+"/hub", &websocket.DialOptions{ //nolint:bodyclose // there is none after 101
		HTTPHeader: http.Header{"X-Shard-Key": {key}}, CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1,
	})
	must(t, err)
	t.Cleanup(func() { _ = c.CloseNow() })
	if resp.Header.Get("Sec-WebSocket-Extensions") == "" {
		t.Errorf("the app's extension did not reach the client: %v", resp.Header)
	}
	c.SetReadLimit(1 << 20)
	talk := func(send, want string) {
		t.Helper()
		must(t, c.Write(t.Context(), websocket.MessageText, []byte(send)))
		if _, b, err := c.Read(t.Context()); err != nil || string(b) != want {
			t.Fatalf("%d bytes come back as %d, %v", len(want), len(b), err)
		}
	}
	talk(greeting, "{}\x1e")
	for _, size := range []int{0, 125, 70_000} {
		text := string(bytes.Repeat([]byte("x"), size))
		talk(text, text)
	}
	return func() error {
		_, _, err := c.Read(context.WithoutCancel(t.Context()))
		return err
	}
}

// passes opens a tunnel with another protocol, and echoes bytes that are no frames.
func passes(t *testing.T, addr, key string) (ends func() error) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET /bytes HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n", key)
	must(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil) //nolint:bodyclose // there is none after 101
	must(t, err)
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "echo/1" {
		t.Fatalf("response to an upgrade to another protocol: %s, %v", resp.Status, resp.Header)
	}
	sent, got := make([]byte, 300_000), make([]byte, 300_000)
	_, _ = rand.Read(sent) // never fails
	var writing sync.WaitGroup
	writing.Go(func() { _, _ = conn.Write(sent) }) // the reader detects missing bytes
	if n, err := io.ReadFull(r, got); !bytes.Equal(got, sent) {
		t.Fatalf("of %d bytes %d come back, or others: %v", len(sent), n, err)
	}
	writing.Wait()
	return func() error {
		if more, err := io.ReadAll(r); len(more) > 0 {
			return fmt.Errorf("%q behind it: %w", more, err)
		}
		return nil
	}
}

// TestWebSocketsWithoutOptInAreNotResumed has clients of hubs that greet inside messages,
// with compression, and of another protocol, at the owner and at another node. Bytes pass
// unchanged. When the shard moves, the clients of the hub and the hub get 1012, other
// connections end, and no app is asked to resume.
func TestWebSocketsWithoutOptInAreNotResumed(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	app := &opaqueApp{}
	srv := httptest.NewServer(app)
	t.Cleanup(srv.Close)
	c := start(t, 3, "--upstream", srv.URL)
	node := c.Follower(t)
	key := c.AwaitServing(t).Keys(node.ID, 1)[0]
	var hubs, tunnels []func() error
	for _, at := range []*cluster.Node{node, c.Others(node)[0]} {
		hubs = append(hubs, joins(t, at.Addr, key))
		tunnels = append(tunnels, passes(t, at.Addr, key))
	}
	if out, code := shardway(t, "drain", node.ID, "--wait", "--admin", node.Admin); code != 0 {
		t.Fatalf("drain %s: exit %d, %s", node.ID, code, out)
	}
	for _, end := range hubs {
		if err := end(); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
			t.Errorf("a hub's client is closed with %v, want 1012", err)
		}
	}
	for _, end := range tunnels {
		if err := end(); err != nil {
			t.Errorf("a tunnel ends with %v", err)
		}
	}
	cluster.Await(t, "the app sees all sockets end", func() error {
		app.mu.Lock()
		defer app.mu.Unlock()
		if len(app.seen) < len(hubs)+len(tunnels) {
			return fmt.Errorf("it saw %q", app.seen)
		}
		return nil
	})
	app.mu.Lock()
	defer app.mu.Unlock()
	restarts := 0
	for _, kind := range app.seen {
		if kind == "hub: 1012" {
			restarts++
		}
	}
	if restarts != len(hubs) || len(app.seen) != len(hubs)+len(tunnels) || len(app.wrong) > 0 {
		t.Errorf("the app saw %q, and %q", app.seen, app.wrong)
	}
}
