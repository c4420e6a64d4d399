package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"shardway/peer/mux"
)

// plays accepts mux sessions in place of the node. Each stream is accepted, counted in the budget, and
// served by serve in a goroutine of its own.
func (n *node) plays(b *mux.Budget, serve func(l *mux.Stream)) {
	n.t.Helper()
	ln := n.listenForMuxSessions()
	var all sync.WaitGroup
	var mu sync.Mutex
	var taken []*mux.Session
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t := mux.NewServer(conn, b, func(l *mux.Stream) bool {
				all.Go(func() { serve(l) })
				return true
			})
			mu.Lock()
			taken = append(taken, t)
			mu.Unlock()
			all.Go(func() { _ = t.Run() })
		}
	})
	n.t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, t := range taken {
			t.Fail(net.ErrClosed)
		}
		mu.Unlock()
		all.Wait()
	})
}

// played is a stream at an owner that the test plays.
type played struct {
	*mux.Stream
	asked int // number of requests on the stream
}

// Unsolicited data on an idle stream belongs to no request, and a stream that the peer has closed
// carries no request. The next request uses a new stream in both cases.
func TestStreamWithUnsolicitedDataIsNotReused(t *testing.T) {
	for what, spoil := range map[string]func(l played){
		"surplus": func(l played) {
			_, _ = io.WriteString(l, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsurplus")
		},
		"a byte": func(l played) { _, _ = io.WriteString(l, "x") },
		"closed": func(l played) { _ = l.Close() },
		"ended":  func(l played) { _ = l.CloseWrite() },
		"cut":    func(l played) { _ = l.SetLinger(0); _ = l.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			ingress, owner := pair(t, "")
			lanes, over := make(chan played, 4), make(chan struct{})
			t.Cleanup(func() { close(over) })
			owner.plays(mux.NewBudget(mux.MaxStreams, nil), func(l *mux.Stream) {
				defer func() { _ = l.Close() }()
				for r, p := bufio.NewReader(l), (played{Stream: l}); ; p.asked++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = fmt.Fprintf(l, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nown %d\n", p.asked)
					select {
					case lanes <- p:
					case <-over:
						return
					}
				}
			})
			ingress.enableStreams()
			c := ingress.dial()
			post := func() {
				t.Helper()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
				if res, body := c.answer("POST"); res.StatusCode != 200 || body != "own 0\n" {
					t.Errorf("%s %q, want the first answer of a lane", res.Status, body)
				}
			}
			post()
			spoil(<-lanes)
			first := ingress.lane.Load()
			until(t, "the idle lane is spoilt", func() bool { return !first.WouldBlock() })
			post()
			if l, laid, unsent := ingress.lanes.Load(), ingress.laid.Load(), metric(t, ingress, "shardway_retries_total", "unsent"); l != 2 || laid != 1 || unsent != 0 {
				t.Errorf("%d lanes of %d trunks, and %v requests met the spoilt one, want another lane of the trunk", l, laid, unsent)
			}
		})
	}
}

// An idle stream of a draining session is not reused, because the session uses the secret from before
// the renewal. The session ends with the stream.
func TestIdleStreamOfDrainingSessionIsNotReused(t *testing.T) {
	app, asked := sized(t)
	ingress, _ := overStreams(pair)(t, app)
	c := ingress.dial()
	c.get("/small")
	first := ingress.lane.Load()
	ingress.muxSessions.Load().Renew()
	if !first.WouldBlock() || !first.SessionDraining() {
		t.Fatal("the idle lane broke with the renewal, or is not over")
	}
	c.get("/small")
	if w, d := ingress.wanted.Load(), ingress.dials.Load(); w != 2 || d != 1 || asked.Load() != 2 {
		t.Fatalf("%d lanes are asked for, %d connections made, and %d requests ran, want another lane asked for and a connection made", w, d, asked.Load())
	}
	until(t, "its trunk ends", func() bool { return !first.WouldBlock() })
}
