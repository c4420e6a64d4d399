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

// A client that sends its body slowly holds up no drain: whoever reads it, the proxy
// for a handler that takes it whole or the handler itself, is woken by the cut.
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
					for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} { // it is being read
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
					// What is cut before its body is read goes again, for here nothing refuses
					// it: so it is cut until it is answered.
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

// cutFirst cuts the first request at the moment when its lease is asked for.
type cutFirst struct {
	proxy.Cluster
	cut  func()
	once *sync.Once
}

func (c cutFirst) LeaseLeft() time.Duration {
	c.once.Do(c.cut)
	return c.Cluster.LeaseLeft()
}

// What was cut before its handler was called never reaches it: the head that takes a
// Server of its own would have had a Done that nobody ends.
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
