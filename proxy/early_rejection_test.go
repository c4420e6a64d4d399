package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// refusingApp reads the headers of a request and rejects it with a body of this size. It neither reads
// further nor closes the connection until the test ends.
func refusingApp(t *testing.T, size int) (addr string) {
	t.Helper()
	over := make(chan struct{})
	addr = rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		if _, err := readHead(r); err != nil {
			return
		}
		head := "HTTP/1.1 413 Content Too Large\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n"
		if _, err := conn.Write(append([]byte(head), make([]byte, size)...)); err != nil {
			return
		}
		<-over
	})
	t.Cleanup(sync.OnceFunc(func() { close(over) }))
	return addr
}

// An app may reject an upload after its headers. The client gets the complete response even if it
// sends the whole body before it reads, and even if the response is larger than all socket buffers.
func TestEarlyRejectionArrivesCompletely(t *testing.T) {
	const size, body = 8 << 20, 30 << 20
	for way, start := range ways() {
		for name, framing := range map[string]struct{ head, chunk, end string }{
			"length":  {"Content-Length: " + strconv.Itoa(body) + "\r\n", "", ""},
			"chunked": {"Transfer-Encoding: chunked\r\n", strconv.FormatInt(body, 16) + "\r\n", "\r\n0\r\n\r\n"},
		} {
			t.Run(way+" "+name, func(t *testing.T) {
				front, _ := start(t, refusingApp(t, size))
				c := front.dial()
				c.send("PUT / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s\r\n%s", framing.head, framing.chunk)
				if n, err := c.Write(append(make([]byte, body), framing.end...)); err != nil {
					t.Fatalf("the client could send %d bytes: %v", n, err)
				}
				res, err := http.ReadResponse(c.r, &http.Request{Method: "PUT"}) //nolint:bodyclose // read to its end
				if err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, res.Body)
				if res.StatusCode != 413 || n != size || err != nil {
					t.Errorf("%s with %d bytes, %v, want 413 with %d", res.Status, n, err, size)
				}
				if !res.Close {
					t.Error("the response does not say that the connection ends with it")
				}
			})
		}
	}
}

// A response with Content-Length that echoes the upload while it arrives is not a rejection. The app
// gets the whole body.
func TestEchoOfRequestBodyIsComplete(t *testing.T) {
	const size = 4 << 20
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				if _, err := readHead(r); err != nil {
					return
				}
				if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(size)+"\r\n\r\n"); err == nil {
					_, _ = io.CopyN(conn, r, size)
				}
			}))
			c := front.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n", size)
			want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
			go func() { _, _ = c.Write(want) }()
			res, err := http.ReadResponse(c.r, &http.Request{Method: "POST"}) //nolint:bodyclose // read to its end
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the echo has %d bytes, %v, want %d", len(got), err, size)
			}
		})
	}
}

// A stopping node waits for a client that still sends after its rejection until the shutdown deadline,
// and no longer.
func TestShutdownEndsLingeringAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simNode(t, newSim(t), "a", simple, func(o *proxy.Options) { o.MaxBody = 1 })
		c := n.dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1000000000\r\n\r\n")
		res, body := c.answer("POST")
		wantStatus(t, res, body, 413, "too-large")
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for {
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := n.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("Shutdown = %v after %v, want the end of its 3 s", err, time.Since(began))
		}
		<-sent
	})
}
