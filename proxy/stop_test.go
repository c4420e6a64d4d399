package proxy_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// A forced shutdown aborts connections in the listener's backlog. Once, a node whose disk had failed
// accepted them after it had aborted the others, and they waited for their shard. For seconds, the
// node continued to run and held a lease without a log.
func TestBacklogIsAbortedOnForcedShutdown(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.MaxConns, o.QueueWait = 1, time.Hour })
	first := n.dial()
	first.get("/")
	n.swap(1, 2, held(route.ReasonMoving))
	second := n.dial()
	second.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	at, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { done <- n.Shutdown(at) }()
	var err error
	until(t, "stopped", func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	second.closed()
}

// A stopping listener accepts no connection while the last ones end. Otherwise, it would reset new
// connections when it closes.
func TestNoConnIsAcceptedWhileLastConnsEnd(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	idle := n.dial() // idle for one second, then closed
	idle.get("/")
	done := make(chan error, 1)
	go func() { done <- n.Shutdown(t.Context()) }()
	until(t, "refused", func() bool {
		c, err := net.Dial("tcp", n.addr)
		if err == nil {
			_ = c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if res, _ := idle.get("/"); res.StatusCode != http.StatusOK {
		t.Errorf("over the connection that was there: %v", res.Status)
	}
	idle.closed()
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}
