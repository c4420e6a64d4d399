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

// A node whose disk broke had to stop at once. But what waited at its listener was
// taken after the rest had been cut, and waited on for its shard: for seconds the
// node went on, and held a lease, without a log.
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

// A listener that stays open while the last connections end takes further ones in
// and resets them all at its end.
func TestNoConnIsAcceptedWhileLastConnsEnd(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	idle := n.dial() // kept for a second
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
