package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/shardmap"
)

// Bodies that are read completely for an in-process handler share a memory limit with the other bodies
// that are read in advance. The memory is also released when the client disconnects. Once, each body
// was limited to 4 MiB, and their total was not: a thousand slow clients used 4 GiB.
func TestHandlerBodiesShareMemoryLimit(t *testing.T) {
	const all, part, whole = 12, 100_000, 200_000
	const most = 5 * (128<<10 + 12<<10 + 64<<10) // buffers grow in steps; then the headers, and the data that was buffered before
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, report, func(o *proxy.Options) {
				o.MaxBodyTotal, o.MaxUpstreamConns, o.MaxShardConns = most, 2*all, 2*all
			})
			kept := func() float64 {
				b := metric(t, owner, "shardway_body_bytes")
				if b > most {
					t.Fatalf("%v bytes are kept", b)
				}
				return b
			}
			shed := func() int { return int(metric(t, owner, "shardway_shed_connections_total", "body")) }
			var open []*client
			for i := range all {
				before, gone := kept(), shed()
				c := front.dial()
				open = append(open, c)
				if i%2 == 0 {
					c.send("POST /%d HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", i, whole, strings.Repeat("x", part))
				} else {
					c.send("POST /%d HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n%s", i, whole, strings.Repeat("x", part))
				}
				until(t, "awaited", func() bool { return kept() >= before+part || shed() > gone })
				if _, body := front.dial().get("/beside"); body != "GET /beside h 0 " {
					t.Fatalf("beside them: %q", body)
				}
			}
			for _, c := range open[all-2:] { // they disconnect, which makes room for the rest of one
				_ = c.Close()
			}
			until(t, "left", func() bool { return int(owner.running.Load()) == all-2-shed() })
			gone := shed()
			if gone < all/4 || gone > all-3 {
				t.Errorf("%d were given up, want those that are too many", gone)
			}
			for i, c := range open[:all-2] {
				if i < gone {
					res, body := c.answer("POST")
					wantStatus(t, res, body, 408, "request-timeout")
					c.closed()
					continue
				}
				running := owner.running.Load()
				c.send("%s", strings.Repeat("x", whole-part))
				if i%2 == 0 {
					c.send("\r\n0\r\n\r\n")
				}
				want := fmt.Sprintf("POST /%d h %d ", i, whole)
				if res, body := c.answer("POST"); res.StatusCode != http.StatusOK || !strings.HasPrefix(body, want) {
					t.Errorf("body %d: %v %.80q", i, res.Status, body)
				}
				until(t, "given back", func() bool { return owner.running.Load() < running })
			}
			until(t, "forgotten", func() bool { return kept() == 0 && owner.running.Load() == 0 })
		})
	}
}

// The memory of a body that is malformed, too long, or whose run is cancelled is released.
func TestHandlerBodiesAreAlwaysUncounted(t *testing.T) {
	n := newNode(t, "a", "", func(o *proxy.Options) {
		o.Handler, o.MaxBody = func(*fasthttp.RequestCtx) {}, 200_000
	})
	for what, end := range map[string]func(c *client){
		"malformed": func(c *client) { c.send("no chunk") },
		"too long":  func(c *client) { c.send("\r\n%x\r\n%s", 150_000, strings.Repeat("x", 150_000)) },
		"left":      func(c *client) { _ = c.Close() },
		"cut":       func(*client) { n.CancelShards(func(shardmap.Shard) bool { return true }, "draining") },
	} {
		c := n.dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", 100_000, strings.Repeat("x", 100_000))
		until(t, "awaited", func() bool { return metric(t, n, "shardway_body_bytes") >= 100_000 })
		end(c)
		until(t, what+": forgotten", func() bool { return metric(t, n, "shardway_body_bytes") == 0 && n.running.Load() == 0 })
	}
}
