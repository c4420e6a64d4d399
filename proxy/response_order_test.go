package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"shardway/shardmap"
)

// hooked is a listener whose connections call first right before the next write, once.
type hooked struct {
	net.Listener
	first *atomic.Pointer[func()]
}

func (l hooked) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return hookedConn{conn, l.first}, nil
}

type hookedConn struct {
	net.Conn
	first *atomic.Pointer[func()]
}

func (c hookedConn) Write(p []byte) (int, error) {
	if f := c.first.Swap(nil); f != nil {
		(*f)()
	}
	return c.Conn.Write(p)
}

// A run with a complete response ends before the response is sent. Once, it counted as responding from
// before the response was assembled until all of it was sent. Cancelling it in between closed the
// client's connection. Sometimes nothing of the response had been sent: a POST that had run looked
// like one on a closed keep-alive connection, and was sent again. Also, a client that did not read
// delayed the drain of a shard, although the app had finished the response long before.
func TestCompleteResponseIsSentAfterRunEnds(t *testing.T) {
	for way, start := range ways() {
		for _, size := range []int{0, 10, 32 << 10} {
			t.Run(fmt.Sprint(way, " ", size), func(t *testing.T) {
				body := strings.Repeat("x", size)
				app := webApp(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Length", strconv.Itoa(size))
					_, _ = io.WriteString(w, body)
				})
				front, owner := start(t, app)
				front.HoldLong()
				owner.HoldLong()
				first := new(atomic.Pointer[func()])
				ln := hooked{listen(t), first}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- front.ServeClients(ctx, ln) }()
				defer func() {
					cancel()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}()
				front.addr = ln.Addr().String()
				c := front.dial()
				var running, cut int
				hook := func() {
					running = int(owner.running.Load())
					cut = front.CancelShards(allShards, "draining") + front.CancelForwarded(func(shardmap.Shard, string) bool { return true })
				}
				for range 2 {
					first.Store(&hook)
					c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
					if res, got := c.answer("POST"); res.StatusCode != http.StatusOK || got != body {
						t.Fatalf("%v with %d bytes, want %d", res.Status, len(got), size)
					}
					if running != 0 || cut != 0 {
						t.Errorf("%d run and %d were cut when the answer left, want none", running, cut)
					}
				}
			})
		}
	}
}

// A response of unknown length must be sent while its run continues. Cancelling the run before the
// first byte closes the upstream connection only, and the client gets an error response.
func TestCancelBeforeResponseKeepsClient(t *testing.T) {
	for way, start := range ways() {
		for _, tc := range []struct {
			name, answer string
			asked        int // how often a response began to be sent before its run had ended
			status       int
			code         string
		}{
			{"chunked, all of it", "4\r\npart\r\n0\r\n\r\n", 0, 200, ""},
			{"chunked, a part", "4\r\npart\r\n", 1, 502, "shard-moved"},
		} {
			t.Run(way+" "+tc.name, func(t *testing.T) {
				front, owner := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
					for first := true; ; first = false {
						if req, err := http.ReadRequest(r); err != nil || req.Body.Close() != nil {
							return
						}
						answer := "0\r\n\r\n"
						if !first {
							answer = tc.answer
						}
						if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+answer); err != nil {
							return
						}
					}
				}))
				c := front.dial()
				c.get("/")
				asked := 0
				front.BeforeResponses(func() {
					asked++
					front.CancelShards(allShards, "draining")
					owner.CancelShards(allShards, "draining")
					front.CancelForwarded(func(shardmap.Shard, string) bool { return true })
				})
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
				res, body := c.answer("POST")
				code := tc.code
				if way != "local" && code == "shard-moved" { // the ingress cannot know why its owner lost the shard
					code = res.Header.Get("Shardway-Error")
				}
				wantStatus(t, res, body, tc.status, code)
				if asked != tc.asked {
					t.Errorf("%d answers began to leave while their run went on, want %d", asked, tc.asked)
				}
				c.get("/") // the connection is still open
				until(t, "released", func() bool { return owner.running.Load() == 0 })
			})
		}
	}
}
