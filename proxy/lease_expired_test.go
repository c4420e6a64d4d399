package proxy_test

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	"shardway/embed"
	"shardway/proxy"
)

// A process that continues after a long pause may run handlers before their requests were cancelled.
// LeaseExpired checks the clock and cancels the request of the handler that calls it. A later response
// is dropped.
func TestExpiredLeaseCancelsAskingHandler(t *testing.T) {
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			var over atomic.Bool
			asks, told := make(chan struct{}), make(chan bool, 1)
			n, owner := start(t, func(ctx *fasthttp.RequestCtx) {
				if proxy.LeaseExpired(ctx) {
					t.Error("over from the beginning")
				}
				if string(ctx.Path()) != "/late" {
					return
				}
				asks <- struct{}{}
				<-asks
				told <- proxy.LeaseExpired(ctx) && ctx.Err() != nil
				_, _ = ctx.WriteString("as if nothing had been")
			}, func(o *proxy.Options) { o.LeaseExpired = over.Load })
			c := n.dial()
			c.send("POST /late HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
			<-asks
			over.Store(true)
			asks <- struct{}{}
			if !<-told {
				t.Error("it is over, and its handler may go on")
			}
			over.Store(false)
			res, body := c.answer("POST")
			wantStatus(t, res, body, 502, "upstream-broken")
			until(t, "the count falls", func() bool { return owner.running.Load() == 0 })
			if res, body := n.dial().get("/after"); res.StatusCode != 200 {
				t.Errorf("the next: %s %s", res.Status, body)
			}
		})
	}
}

// A task that a handler leaves behind checks its own request only, even if that has ended and another
// request uses the same connection.
func TestLateLeaseCheckCancelsNoOtherRequest(t *testing.T) {
	var over atomic.Bool
	left, runs, goes := make(chan proxy.Task, 1), make(chan struct{}), make(chan struct{})
	n := newNode(t, "a", "", func(o *proxy.Options) {
		o.LeaseExpired = over.Load
		o.Handler = func(ctx *fasthttp.RequestCtx) {
			if string(ctx.Path()) == "/left" {
				task := proxy.Begin(ctx)
				left <- task
				task.End()
				return
			}
			close(runs)
			<-goes
		}
	})
	c := n.dial()
	if res, body := c.get("/left"); res.StatusCode != 200 {
		t.Fatalf("%s %s", res.Status, body)
	}
	task := <-left
	c.send("POST /next HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	<-runs
	over.Store(true)
	if !task.LeaseExpired() {
		t.Error("the clock is not asked")
	}
	close(goes)
	if res, body := c.answer("POST"); res.StatusCode != 200 {
		t.Errorf("the next: %s %s", res.Status, body)
	}
	if (proxy.Task{}).LeaseExpired() {
		t.Error("a request that is none of the node's is cut")
	}
}

// After a cancellation, LeaseExpired reports true even if a new lease has begun. Once, the
// cancellation reached the context of an embed.HTTP request in a goroutine. If a new lease began
// before that goroutine ran, the check by the clock alone let the request continue.
func TestLeaseCheckAfterCancelReportsExpiry(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // no goroutine runs between the cancellation and the check
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			var over atomic.Bool
			var owner *node
			byContext, byErr := 0, 0
			n, o := start(t, embed.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				over.Store(true)
				owner.CancelUpstream("lapsed")
				over.Store(false) // a new lease begins
				if r.Context().Err() == nil {
					byContext++
				}
				if embed.Err(embed.RequestCtx(r.Context())) == nil {
					byErr++
				}
			})), func(o *proxy.Options) { o.LeaseExpired = over.Load })
			owner = o
			const rounds = 20
			for range rounds {
				c := n.dial()
				c.send("POST /late HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
				c.answer("POST")
			}
			if byContext > 0 || byErr > 0 {
				t.Errorf("of %d requests that were cut, %d may go on by their context, %d by embed.Err", rounds, byContext, byErr)
			}
		})
	}
}
