package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// A stopping node truncates no response of a long poll that begins while it decides to close the
// connection. Once, it did. A client gets its whole response, or no byte of it.
func TestStopCancelsNoStartingResponse(t *testing.T) {
	const clients, large = 200, 100_000
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		respond, seen := make(chan struct{}), make(chan struct{})
		n := simNode(t, sim, "a", func(conn net.Conn, r *bufio.Reader) {
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				size := 0
				if req.URL.Path == "/poll" {
					seen <- struct{}{}
					<-respond
					size = large
				}
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size/2))
				if size > 0 {
					time.Sleep(time.Second / 10)
				}
				if _, err := io.WriteString(conn, strings.Repeat("x", size/2)); err != nil {
					return
				}
			}
		}, func(o *proxy.Options) { o.DrainTimeout = time.Second })
		var cs []*client
		began := time.Now() // sweeps begin with the first connection
		for range clients {
			c := n.dial()
			c.get("/")
			c.send("GET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			<-seen
			cs = append(cs, c)
		}
		ended := stopping(n, 30*time.Second)
		time.Sleep(time.Until(began.Add(time.Second + 50*time.Millisecond)))
		for range clients / 2 { // at the same time as the sweep that closes the connections
			respond <- struct{}{}
		}
		time.Sleep(time.Millisecond / 2) // in the middle of a long sweep
		close(respond)
		whole := 0
		for i, c := range cs {
			res, err := http.ReadResponse(c.r, nil)
			switch {
			case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
				if left := c.r.Buffered(); left > 0 {
					t.Errorf("client %d: cut within a response's header section", i)
				}
			case err != nil:
				t.Errorf("client %d: %v", i, err)
			default:
				b, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || len(b) != large {
					t.Errorf("client %d: response of %d bytes: %v", i, len(b), err)
				}
				whole++
			}
			_ = c.Close()
		}
		t.Logf("%d of %d responses arrived", whole, clients)
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		time.Sleep(time.Second) // until the app's last goroutines have ended
	})
}
