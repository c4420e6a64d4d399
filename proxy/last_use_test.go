package proxy_test

import (
	"bufio"
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// handed is a listener whose connections come from the test.
type handed struct {
	conns chan net.Conn
	over  chan struct{} // latch
	once  sync.Once
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.over:
		return nil, net.ErrClosed
	}
}

func (h *handed) Close() error {
	h.once.Do(func() { close(h.over) })
	return nil
}

func (h *handed) Addr() net.Addr { return &net.TCPAddr{} }

// A client that reads its response slowly does not make the upstream connection look recently used.
// Once, the connection that returned to the pool after the client had read counted as used just now,
// and was kept and trusted for longer.
func TestSlowClientsDoNotMakeConnLookRecent(t *testing.T) {
	for late, want := range map[time.Duration]float64{0: 1, linkAge - 10*time.Second: 0} {
		synctest.Test(t, func(t *testing.T) {
			n := simNode(t, newSim(t), "a", simple)
			h := &handed{conns: make(chan net.Conn), over: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan struct{})
			go func() { defer close(served); _ = n.ServeClients(ctx, h) }() // ends with ctx
			defer func() { cancel(); <-served }()
			near, far := net.Pipe() // accepts no data before it is read
			defer func() { _ = near.Close() }()
			h.conns <- far
			c := &client{Conn: near, t: t, r: bufio.NewReader(near)}
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			time.Sleep(late)
			c.answer("GET")
			synctest.Wait()
			if got := metric(t, n, "shardway_upstream_connections"); got != 1 {
				t.Errorf("late by %v: %v connections to the app come back, want 1", late, got)
			}
			time.Sleep(15 * time.Second)
			if got := metric(t, n, "shardway_upstream_connections"); got != want {
				t.Errorf("late by %v: %v connections are kept 15s later, want %v", late, got, want)
			}
		})
	}
}

const linkAge = time.Minute // time for which the proxy keeps idle connections
