package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer/mux"
)

// stopping puts a listener in front of the node's address for sessions. It accepts the first session
// as a stopping node: it answers all pings, and sends a GOAWAY after it has received data of a stream,
// because before that the request may not have been written. Later sessions reach the node.
func (n *node) stopping() (stopped *atomic.Int32) {
	n.t.Helper()
	ln, behind := listen(n.t), n.muxAddr
	stopped = new(atomic.Int32)
	n.muxAddr = ln.Addr().String()
	go func() {
		for first := true; ; first = false {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if !first {
				go splice(conn, behind)
				continue
			}
			go func() {
				defer func() { _ = conn.Close() }()
				header := make([]byte, len(frameOf(framePing)))
				for {
					if _, err := io.ReadFull(conn, header); err != nil {
						return
					}
					if header[3] == frameData {
						break
					}
					if header[3] == framePing {
						_, _ = io.WriteString(conn, frameOf(framePong))
					}
				}
				stopped.Add(1)
				_, _ = io.WriteString(conn, frameOf(frameGoAway))
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return stopped
}

// Frame types of a mux session, see peer/mux.
const (
	frameData   = 2
	framePing   = 7
	frameGoAway = 8 // no stream was accepted
	framePong   = 9
)

// frameOf returns a frame without a payload, of stream 0.
func frameOf(kind byte) string { return string([]byte{0, 0, 0, kind, 0, 0, 0, 0}) }

// splice forwards a connection to an address.
func splice(conn net.Conn, addr string) {
	defer func() { _ = conn.Close() }()
	on, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(on, conn)
		_ = on.Close()
	}()
	_, _ = io.Copy(conn, on)
}

// A request that a stopping node has not processed is retried, regardless of its method, and runs once.
func TestUnreadRequestIsRetriedWhateverItsMethod(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			var asked atomic.Int32
			app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				asked.Add(1)
				_, _ = w.Write(b)
			})
			ingress, owner := overStreams(pair)(t, app)
			stopped := owner.stopping()
			c := ingress.dial()
			c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 4\r\n\r\nbody", method)
			if res, body := c.answer(method); res.StatusCode != 200 || body != "body" || asked.Load() != 1 || stopped.Load() != 1 {
				t.Errorf("%s %q after %d runs and %d stops, want one of each", res.Status, body, asked.Load(), stopped.Load())
			}
			if d := ingress.dials.Load(); d != 1 {
				t.Errorf("it went again by %d connections, want one", d)
			}
		})
	}
}

// stuck is a connection that accepts one write and blocks the next until it is closed.
type stuck struct {
	net.Conn
	writes *atomic.Int32
	closed chan struct{}
	once   *sync.Once
}

func (s stuck) Write(p []byte) (int, error) {
	if s.writes.Add(1) == 1 {
		return s.Conn.Write(p)
	}
	<-s.closed
	return 0, net.ErrClosed
}

func (s stuck) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// A request that was not completely written when the owner stopped is retried as well.
func TestUnreadPartlyWrittenRequestIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		var asked atomic.Int32
		owner := simNode(t, sim, "owner", func(conn net.Conn, r *bufio.Reader) {
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				body, _ := io.ReadAll(req.Body)
				asked.Add(1)
				text := req.Method + " " + req.URL.Path + " " + string(body)
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			}
		})
		ingress := simNode(t, sim, "ingress", simple)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		ln, err := owner.host.Listen(":91")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		owner.muxAddr = owner.host.Addr(91)
		stops := make(chan struct{})
		go func() {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.ReadFull(conn, make([]byte, len(frameOf(framePing))))
			_, _ = io.WriteString(conn, frameOf(framePong))
			<-stops
			_, _ = io.WriteString(conn, frameOf(frameGoAway))
			_, _ = io.Copy(io.Discard, conn)
		}()
		ingress.tap = func(c net.Conn) net.Conn {
			return stuck{c, new(atomic.Int32), make(chan struct{}), new(sync.Once)}
		}
		ingress.enableStreams()
		var clients []*client
		// The first request is being written while the others wait.
		heads := []int{10, 11_000, 11_000, 11_000, 11_000, 11_000}
		for i, head := range heads {
			c := ingress.dial()
			c.send("POST /%d HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 4\r\nX-Long: %s\r\n\r\nbody", i, strings.Repeat("x", head))
			clients = append(clients, c)
			time.Sleep(10 * time.Millisecond) // until the first one blocks in the session's write
		}
		if n := ingress.lanes.Load(); int(n) != len(heads) {
			t.Errorf("%d lanes, want %d", n, len(heads))
		}
		began := time.Now()
		close(stops)
		for i, c := range clients {
			if res, got := c.answer("POST"); res.StatusCode != 200 || got != fmt.Sprintf("POST /%d body", i) {
				t.Errorf("%s %.100q", res.Status, got)
			}
		}
		if took := time.Since(began); int(asked.Load()) != len(heads) || took > time.Millisecond {
			t.Errorf("%d runs, and the last answer after %v", asked.Load(), took)
		}
	})
}

// halfway is a stream whose peer reports after the first byte that it processed nothing.
type halfway struct {
	*mux.Stream
	n *node
}

func (h halfway) Write(p []byte) (int, error) {
	n, err := h.Stream.Write(p[:1])
	if err != nil {
		return n, err
	}
	until(h.n.t, "it is told that none was taken", h.Unprocessed)
	m, err := h.Stream.Write(p[1:])
	return n + m, err
}

// A request of which the stopping owner received only a part is retried as well.
func TestUnreadPartlyReceivedRequestIsRetried(t *testing.T) {
	app, asked := sized(t)
	ingress, owner := overStreams(pair)(t, app)
	stopped := owner.stopping()
	ingress.wraps = func(l *mux.Stream) net.Conn { return halfway{l, ingress} }
	c := ingress.dial()
	c.send("POST /10 HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 4\r\n\r\nbody")
	if res, body := c.answer("POST"); res.StatusCode != 200 || stopped.Load() != 1 || asked.Load() != 1 {
		t.Errorf("%s %.100q after %d stops and %d runs", res.Status, body, stopped.Load(), asked.Load())
	}
}
