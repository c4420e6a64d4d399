package proxy_test

import (
	"bufio"
	"context"
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

// streaming returns an app that responds with an event stream of the parts, and ends the stream when
// the channel is closed.
func streaming(parts <-chan string) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
		gone := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, r)
			close(gone)
		}()
		for {
			select {
			case p, ok := <-parts:
				if !ok {
					return
				}
				_, _ = io.WriteString(conn, p)
			case <-gone:
				return
			}
		}
	}
}

// stopping calls Shutdown with a timeout and returns a channel with its result.
func stopping(n *node, timeout time.Duration) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		ended <- n.Shutdown(ctx)
	}()
	return ended
}

const postEmpty = "POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n"

// A stopping ingress lets event streams of its clients finish. Once, it aborted them after 250 ms,
// although their owners stayed.
func TestStoppingIngressLetsEventStreamsFinish(t *testing.T) {
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", postEmpty} {
		synctest.Test(t, func(t *testing.T) {
			parts := make(chan string)
			front, _ := simPair(t, streaming(parts))
			c := front.dial()
			c.send("%s", request)
			parts <- "data: 1\n\n"
			_, body := c.head("GET")
			ended := stopping(front, 30*time.Second)
			time.Sleep(20 * time.Second)
			parts <- "data: 2\n\n"
			close(parts)
			if b, err := io.ReadAll(body); string(b) != "data: 1\n\ndata: 2\n\n" || err != nil {
				t.Errorf("%.4s: got %q, %v; want the whole stream", request, b, err)
			}
			if err := <-ended; err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
}

// An endless event stream ends between two events before the shutdown timeout.
func TestStoppingIngressEndsEndlessStreamsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := make(chan string)
		front, _ := simPair(t, streaming(parts))
		c := front.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		parts <- "data: 1\n\ndata: 2\n"
		_, body := c.head("GET")
		began := time.Now()
		ended := stopping(front, 30*time.Second)
		time.Sleep(29800 * time.Millisecond)
		parts <- "data: 3\n\ndata: 4\n\n"
		if b, err := io.ReadAll(body); string(b) != "data: 1\n\ndata: 2\ndata: 3\n\n" || err == nil {
			t.Errorf("got %q, %v; want whole events and a cut", b, err)
		}
		if err := <-ended; err != nil || time.Since(began) >= 30*time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(began))
		}
	})
}

// A stream that its client can continue at another node with Last-Event-ID does not delay a shutdown.
func TestStoppingIngressEndsResumableStreamsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front, _ := simPair(t, func(conn net.Conn, r *bufio.Reader) {
			if _, err := readHead(r); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nShardway-Stream: resume\r\n\r\nid: 1\ndata: 1\n\n")
				_, _ = io.Copy(io.Discard, r)
			}
		})
		c := front.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		_, body := c.head("GET")
		synctest.Wait()
		began := time.Now()
		if err := <-stopping(front, 30*time.Second); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(began))
		}
		if b, err := io.ReadAll(body); string(b) != "id: 1\ndata: 1\n\n" || err == nil {
			t.Errorf("got %q, %v; want the event and a cut", b, err)
		}
	})
}

// An event stream that responds to a POST counts as a response. Once, it was ended stream-grace after
// its shard began to move, like an endless stream.
func TestEventStreamForPOSTCountsAsResponse(t *testing.T) {
	for _, local := range []bool{true, false} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			t.Run(fmt.Sprint(method, " local ", local), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parts := make(chan string)
					front, owner := simPair(t, streaming(parts))
					if local {
						front = owner
					}
					c := front.dial()
					c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", method)
					parts <- "data: 1\n\n"
					_, body := c.head(method)
					moves(owner)
					time.Sleep(4 * time.Second)
					if owner.running.Load() != 1 {
						t.Fatal("it does not run any more, though drain-timeout has not passed")
					}
					parts <- "data: 2\n\n"
					close(parts)
					if b, err := io.ReadAll(body); string(b) != "data: 1\n\ndata: 2\n\n" || err != nil {
						t.Errorf("got %q, %v; want the whole stream", b, err)
					}
					_ = c.Close()
				})
			})
		}
	}
}

// The last node cannot move its shards, and lets the response finish.
func TestLastNodeLetsEventStreamForPOSTFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := make(chan string)
		n := simNode(t, newSim(t), "a", streaming(parts))
		c := n.dial()
		c.send(postEmpty)
		parts <- "data: 1\n\n"
		_, body := c.head("POST")
		ended := stopping(n, 30*time.Second)
		time.Sleep(10 * time.Second)
		close(parts)
		if b, err := io.ReadAll(body); string(b) != "data: 1\n\n" || err != nil {
			t.Errorf("got %q, %v; want the whole stream", b, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// The client of a new connection treats a close as an error, so its long poll continues.
func TestStoppingNodeFinishesLongPollsOfNewConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front, _ := simPair(t, simple, func(o *proxy.Options) { o.DrainTimeout = 3 * time.Second })
		c := front.dial()
		c.send("GET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		synctest.Wait()
		ended := stopping(front, 40*time.Second)
		if _, body := c.answer("GET"); body != "GET /poll " {
			t.Errorf("got %q, want the response", body)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// A stopping node closes the long polls of its clients. Once, it waited for them up to
// shutdown-timeout.
func TestStoppingNodeClosesLongPolls(t *testing.T) {
	for _, local := range []bool{true, false} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			t.Run(fmt.Sprint(method, " local ", local), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					front, owner := simPair(t, simple, func(o *proxy.Options) { o.DrainTimeout = 3 * time.Second })
					if local {
						front = owner
					}
					c := front.dial()
					c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
					c.answer("GET")
					c.send("%s /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", method)
					time.Sleep(2 * time.Second)
					began := time.Now()
					ended := stopping(front, 25*time.Second)
					if b, err := io.ReadAll(c.r); len(b) > 0 || err != nil {
						t.Errorf("got %q, %v; want the end of the connection", b, err)
					}
					if took := time.Since(began); took < 900*time.Millisecond || took > 1500*time.Millisecond {
						t.Errorf("closed after %v, want drain-timeout after the request", took)
					}
					if err := <-ended; err != nil {
						t.Errorf("Shutdown: %v", err)
					}
					time.Sleep(30 * time.Second) // until the app has finished
				})
			})
		}
	}
}

// A stopping node finishes requests that must not be sent again, and requests that take no longer than
// drain-timeout.
func TestStoppingNodeFinishesAllButLongPolls(t *testing.T) {
	for request, want := range map[string]string{
		"POST /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi":   "POST /poll hi",
		"DELETE /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi": "DELETE /poll hi",
		"GET /slow HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n":                           "GET /slow ",
	} {
		synctest.Test(t, func(t *testing.T) {
			front, _ := simPair(t, simple, func(o *proxy.Options) { o.DrainTimeout = 3 * time.Second })
			c := front.dial()
			c.send("%s", request)
			synctest.Wait()
			ended := stopping(front, 40*time.Second)
			if _, body := c.answer("POST"); body != want {
				t.Errorf("got %q, want %q", body, want)
			}
			if err := <-ended; err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
}

// A request whose body still arrives is not a long poll, regardless of its method, because the app cannot
// respond yet.
func TestStoppingNodeFinishesBodiesOfSafeMethods(t *testing.T) {
	half := strings.Repeat("a", 150000)
	synctest.Test(t, func(t *testing.T) {
		front, _ := simPair(t, simple, func(o *proxy.Options) { o.DrainTimeout = 3 * time.Second })
		c := front.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		c.answer("GET")
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 300000\r\n\r\n%s", half)
		time.Sleep(4 * time.Second) // longer than drain-timeout
		ended := stopping(front, 25*time.Second)
		time.Sleep(2137 * time.Millisecond)
		c.send("%s", half)
		if _, body := c.answer("GET"); body != "GET / "+half+half {
			t.Errorf("got %d bytes, want the response", len(body))
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// A long poll whose response has begun counts as a response and finishes.
func TestStoppingNodeFinishesStartedResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front, _ := simPair(t, func(conn net.Conn, r *bufio.Reader) {
			if _, err := readHead(r); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
				time.Sleep(20 * time.Second)
				_, _ = io.WriteString(conn, "1\r\nb\r\n0\r\n\r\n")
			}
		})
		c := front.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		_, body := c.head("GET")
		ended := stopping(front, 30*time.Second)
		if b, err := io.ReadAll(body); string(b) != "ab" || err != nil {
			t.Errorf("got %q, %v; want the whole response", b, err)
		}
		if err := <-ended; err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("Shutdown: %v", err)
		}
	})
}
