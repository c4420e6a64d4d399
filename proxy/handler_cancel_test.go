package proxy_test

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/shardmap"
)

// A client that sends its body slowly does not delay a drain. Cancelling the run wakes the reader of
// the body, either the proxy or the handler.
func TestSlowBodyDoesNotDelayHandlerCancel(t *testing.T) {
	for _, streams := range []bool{false, true} {
		for _, why := range []string{"draining", "lease lost"} {
			for way, start := range handlerWays() {
				t.Run(why+map[bool]string{false: ", whole", true: ", streams"}[streams]+", "+way, func(t *testing.T) {
					n, owner := start(t, func(ctx *fasthttp.RequestCtx) {
						if _, err := io.Copy(io.Discard, ctx.RequestBodyStream()); err == nil {
							t.Error("half a body looks whole")
						}
					}, func(o *proxy.Options) { o.HandlerStreams, o.MinBodyRate = streams, -1 })
					c := n.dial()
					c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
					for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} { // the body is being read
						if line, err := c.r.ReadString('\n'); err != nil || line != want {
							t.Fatalf("%q, %v, want %q", line, err, want)
						}
					}
					c.send("5\r\nhel")
					want := "shard-moved"
					cut := func() { owner.CancelShards(func(shardmap.Shard) bool { return true }, why) }
					if why != "draining" {
						cut, want = func() { owner.CancelUpstream(why) }, "upstream-broken"
					}
					// A request that is cancelled before its body was read is sent again, because this
					// node does not refuse it. So it is cancelled until it gets a response.
					answered, over := make(chan struct{}), make(chan struct{})
					go func() {
						defer close(over)
						for {
							cut()
							select {
							case <-answered:
								return
							case <-time.After(time.Millisecond):
							}
						}
					}()
					res, body := c.answer("POST")
					close(answered)
					<-over
					wantStatus(t, res, body, 502, want)
					c.closed()
					until(t, "the count falls", func() bool { return owner.running.Load() == 0 })
				})
			}
		}
	}
}

// cutFirst is a Cluster that cancels the first request when its lease is checked.
type cutFirst struct {
	proxy.Cluster
	cut  func()
	once *sync.Once
}

func (c cutFirst) LeaseLeft() time.Duration {
	c.once.Do(c.cut)
	return c.Cluster.LeaseLeft()
}

// A request that is cancelled before its handler was called never reaches the handler. Otherwise, the
// handler would get a context whose Done channel is never closed.
func TestHandlerIsNotCalledAfterCancel(t *testing.T) {
	for _, head := range []string{"", strings.Repeat("x", 20<<10)} {
		var calls atomic.Int32
		var n *node
		n = newNode(t, "a", "", func(o *proxy.Options) {
			o.Handler = func(ctx *fasthttp.RequestCtx) {
				calls.Add(1)
				if ctx.Err() != nil {
					t.Error("called when it was over")
				}
			}
			o.Cluster = cutFirst{o.Cluster, func() { n.CancelShards(func(shardmap.Shard) bool { return true }, "draining") }, new(sync.Once)}
		})
		c := n.dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\nLong: %s\r\n\r\n", head)
		if res, body := c.answer("POST"); res.StatusCode != 200 || calls.Load() != 1 {
			t.Errorf("%s %q after %d calls", res.Status, body, calls.Load())
		}
	}
}
