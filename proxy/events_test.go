package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"shardway/proxy"
	"shardway/proxy/route"
)

// eventful returns an app that sends the parts as an event stream. The channel ended is closed when
// its connection ends.
func eventful(parts <-chan string) (app func(net.Conn, *bufio.Reader), ended <-chan struct{}) {
	over := make(chan struct{}, 8)
	return func(conn net.Conn, r *bufio.Reader) {
		if _, err := readHead(r); err != nil {
			return
		}
		gone := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, r)
			close(gone)
		}()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n")
		for {
			select {
			case p := <-parts:
				_, _ = io.WriteString(conn, p)
				continue
			case <-gone:
			}
			over <- struct{}{}
			return
		}
	}, over
}

// moves begins a planned move of the shards of owner.
func moves(owner *node) { owner.swap(1, 2, held(route.ReasonMoving)) }

// An event stream ends after its grace period when its shard moves. It is visibly truncated, at the
// end of an event if possible. Once, it delayed the move of every shard until drain-timeout.
func TestEventStreamEndsBetweenEvents(t *testing.T) {
	for _, local := range []bool{true, false} {
		for name, tc := range map[string]struct{ before, after, want string }{
			"quiet":      {"data: 1\n\n", "", "data: 1\n\n"},
			"amid":       {"data: 1\n\ndata: 2\n", "data: 3\n\ndata: 4\n\n", "data: 1\n\ndata: 2\ndata: 3\n\n"},
			"CR":         {"data: 1\r\rdata: 2", "\r\rdata: 3\r\r", "data: 1\r\rdata: 2\r\r"},
			"CRLF":       {"data: 1\r\n\r\ndata: 2\r", "\n\r\ndata: 3\r\n\r\n", "data: 1\r\n\r\ndata: 2\r\n\r\n"},
			"never ends": {"data: 1\n\ndata: 2\n", "", "data: 1\n\ndata: 2\n"},
		} {
			t.Run(fmt.Sprint(name, " local ", local), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parts := make(chan string)
					app, ended := eventful(parts)
					front, owner := simPair(t, app)
					if local {
						front = owner
					}
					c := front.dial()
					c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
					parts <- tc.before
					_, body := c.head("GET")
					got := make([]byte, len(tc.before))
					if _, err := io.ReadFull(body, got); err != nil {
						t.Fatal(err)
					}
					moves(owner)
					if tc.after != "" {
						time.Sleep(400 * time.Millisecond) // the grace period has ended; the node waits for the end of the last event
						parts <- tc.after
					}
					rest, err := io.ReadAll(body)
					if all := string(got) + string(rest); all != tc.want || err == nil {
						t.Errorf("got %q, %v; want %q and a cut", all, err, tc.want)
					}
					<-ended
					synctest.Wait()
					if owner.running.Load() != 0 {
						t.Error("not released")
					}
					if n := metric(t, owner, "shardway_truncated_responses_total"); n != 0 {
						t.Errorf("%v answers of the app are said to have broken", n)
					}
					_ = c.Close()
				})
			})
		}
	}
}

// A client that does not read does not keep its event stream open.
func TestUnreadEventStreamIsCancelled(t *testing.T) {
	parts := make(chan string)
	app, ended := eventful(parts)
	n := newNode(t, "a", rawApp(t, app), func(o *proxy.Options) { o.StreamGrace = -1 })
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case parts <- strings.Repeat("data: x\n\n", 1<<16):
			case <-stop:
				return
			}
		}
	}()
	if _, err := c.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	moves(n)
	<-ended
	until(t, "released", func() bool { return n.running.Load() == 0 })
}

// A stream that is aborted at the drain timeout also ends between two events.
func TestDrainEndsEventStreamsBetweenEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", func(conn net.Conn, r *bufio.Reader) {
			if _, err := readHead(r); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
				_, _ = io.Copy(io.Discard, r)
			}
		})
		c := n.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		synctest.Wait()
		if cut := n.CancelShards(allShards, "draining"); cut != 1 {
			t.Errorf("cut %d, want 1", cut)
		}
		_, body := c.head("GET")
		if b, err := io.ReadAll(body); string(b) != "data: 1\n\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %q, %v; want the event and a cut", b, err)
		}
		_ = c.Close()
	})
}

// A stopping node closes its WebSocket tunnels with code 1001 and truncates its event streams between
// two events. Once, it reset its tunnels without a Close frame: those of other nodes' shards, and its
// own if no other node could take over.
func TestShutdownEndsEventStreams(t *testing.T) {
	for way, start := range ways() {
		t.Run(way+" WebSocket", func(t *testing.T) {
			addr, ended := talk(t)
			front, owner := start(t, addr)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			ws := front.websocket(ctx)
			defer func() { _ = ws.CloseNow() }()
			done := make(chan error, 1)
			go func() { done <- front.Shutdown(ctx) }()
			if _, _, err := ws.Read(ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("the client was told %v, want 1001", err)
			}
			if err := <-ended; websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("the app was told %v, want 1001", err)
			}
			if err := <-done; err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			until(t, "released", func() bool { return owner.running.Load() == 0 })
		})
		t.Run(way+" events", func(t *testing.T) {
			t.Parallel() // most of its time is spent waiting for the shutdown
			parts := make(chan string)
			app, ended := eventful(parts)
			front, _ := start(t, rawApp(t, app))
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			parts <- "data: 1\n\n"
			_, body := c.head("GET")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // an ingress uses nearly all of it
			defer cancel()
			if err := front.Shutdown(ctx); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if b, err := io.ReadAll(body); string(b) != "data: 1\n\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %q, %v; want the event and a cut", b, err)
			}
			<-ended
		})
	}
}
