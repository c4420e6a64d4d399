package proxy_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
)

// A goroutine that returns an in-process connection to the pool must not use it again: a response to
// the next request is not a second response to its own request. The race detector finds a violation
// first.
func TestHandlerConnIsReusedForOtherClient(t *testing.T) {
	n := newNode(t, "a", "", func(o *proxy.Options) {
		o.MaxUpstreamConns, o.MaxShardConns = 1, 1
		o.Handler = func(ctx *fasthttp.RequestCtx) {
			if string(ctx.Path()) == "/fails" {
				ctx.SetStatusCode(100)
			}
		}
	})
	var all sync.WaitGroup
	for i := range 8 {
		c := n.dial()
		all.Go(func() {
			for j := range 200 {
				path, want := "/", 200
				if (i+j)%16 == 0 {
					path, want = "/fails", 500
				}
				_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k%d\r\n\r\n", path, i)
				if got, err := statusOf(c); err != nil || got != want {
					t.Errorf("%s: %d, %v, want %d", path, got, err, want)
					return
				}
			}
		})
	}
	all.Wait()
}

// statusOf reads a response and returns its status. It may be called from any goroutine.
func statusOf(c *client) (int, error) {
	var res fasthttp.Response
	err := res.Read(c.r)
	return res.StatusCode(), err
}
