package proxy_test

import (
	"bufio"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// One upstream connection stays open however long it is idle, if it shows whether the app runs.
func TestOneIdleUpstreamConnectionIsKept(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := simNode(t, newSim(t), "a", simple, func(o *proxy.Options) { o.KeepUpstream = keeps })
			is := func(want bool, when string) {
				t.Helper()
				synctest.Wait()
				if got := n.UpstreamConnected(0); got != want {
					t.Errorf("keeps %v, %s: connected %v, want %v", keeps, when, got, want)
				}
			}
			is(false, "before any request")
			c := n.dial()
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.send("GET /slow HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				c.answer("GET")
			}()
			time.Sleep(100 * time.Millisecond)
			is(true, "while a request runs")
			<-done
			is(true, "after it")
			time.Sleep(5 * time.Minute)
			is(keeps, "minutes later")
		})
	}
}

// After a renewal of the pool, no request uses an older connection.
func TestRenewedUpstreamGetsANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan net.Conn, 8)
		n := simNode(t, newSim(t), "a", func(c net.Conn, r *bufio.Reader) {
			conns <- c
			simple(c, r)
		})
		c := n.dial()
		for range 2 {
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			c.answer("GET")
		}
		n.RenewUpstream(0)
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		c.answer("GET")
		if got := len(conns); got != 2 {
			t.Errorf("%d connections to the app, want one before and one after", got)
		}
	})
}
