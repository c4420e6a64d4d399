package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// switching starts an app that accepts every upgrade and passes the connection to serve.
func switching(t *testing.T, serve func(conn net.Conn, r *bufio.Reader)) string {
	t.Helper()
	return rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		head, err := readHead(r)
		if err != nil {
			return
		}
		if !strings.Contains(head, "Upgrade: thing") {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\nearly")
		serve(conn, r)
	})
}

const upgrade = "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\n"

func halfClose(t *testing.T, conn net.Conn) {
	t.Helper()
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		t.Error("half close failed")
	}
}

func TestUpgradedConnsCopyBothDirections(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, switching(t, func(conn net.Conn, r *bufio.Reader) {
				_, _ = io.Copy(conn, r)
				halfClose(t, conn)
			}))
			c := front.dial()
			c.send(upgrade + "first")
			head, err := readHead(c.r)
			if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101") || !strings.Contains(head, "Upgrade: thing") {
				t.Fatalf("head = %q %v", head, err)
			}
			data := make([]byte, 1<<20)
			_, _ = rand.Read(data)
			go func() {
				_, _ = c.Write(data)
				halfClose(t, c.Conn)
			}()
			got, err := io.ReadAll(c.r)
			if err != nil || !bytes.Equal(got, append([]byte("earlyfirst"), data...)) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			until(t, "released", func() bool { return owner.running.Load() == 0 })
		})
	}
}

func TestRefusedUpgradeIsOrdinaryResponse(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo))
			c := front.dial()
			for range 2 {
				c.send(upgrade)
				if res, body := c.answer("GET"); res.StatusCode != 200 || body != "GET / " {
					t.Errorf("answer = %v %q", res.Status, body)
				}
			}
		})
	}
}

func TestInvalidUpgradeIsNotForwarded(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, switching(t, func(net.Conn, *bufio.Reader) {}))
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nUpgrade: thing\r\n\r\n")
			if res, body := c.answer("GET"); res.StatusCode != 200 || strings.Contains(body, "Upgrade") {
				t.Errorf("answer = %v %q", res.Status, body)
			}
		})
	}
}

func TestCancelEndsUpgradedConns(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, switching(t, func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }))
			c := front.dial()
			c.send(upgrade)
			if _, err := readHead(c.r); err != nil {
				t.Fatal(err)
			}
			owner.CancelShards(allShards, "draining")
			until(t, "released", func() bool { return owner.running.Load() == 0 })
			_, _ = io.ReadAll(c.r)
		})
	}
}

func TestWebSocketWorks(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				ws, err := websocket.Accept(w, r, nil)
				if err != nil {
					return
				}
				for {
					kind, b, err := ws.Read(r.Context())
					if err != nil {
						return
					}
					if ws.Write(r.Context(), kind, bytes.ToUpper(b)) != nil {
						return
					}
				}
			}))
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			ws, _, err := websocket.Dial(ctx, "ws://"+front.addr+"/", &websocket.DialOptions{HTTPHeader: http.Header{"X-Shard-Key": {"k"}}}) //nolint:bodyclose // there is none after 101
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				text := fmt.Sprintf("message %d", i)
				if err := ws.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if _, b, err := ws.Read(ctx); err != nil || string(b) != strings.ToUpper(text) {
					t.Fatalf("got %q %v", b, err)
				}
			}
			if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
				t.Error(err)
			}
		})
	}
}
