package proxy_test

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
)

// Each optimization is used, unless it is disabled. Responses are the same in both cases.
func TestDisabledOptimizationIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		disable proxy.Optimizations
		used    func(t *testing.T, change func(*proxy.Options)) bool
	}{
		"event loop": {proxy.Optimizations{EventLoop: true}, func(t *testing.T, change func(*proxy.Options)) bool {
			t.Helper()
			n := newNode(t, "a", webApp(t, longApp), change)
			c := n.dial()
			for range 200 {
				c.expectCounted(t, 10)
				time.Sleep(time.Millisecond) // an event loop takes over a connection that waits for its next request
			}
			return n.carried() > 0
		}},
		"multiplexing": {proxy.Optimizations{Multiplexing: true}, func(t *testing.T, change func(*proxy.Options)) bool {
			t.Helper()
			front, _ := overStreams(pair)(t, webApp(t, longApp), change)
			front.dial().expectCounted(t, 10)
			return metric(t, front, "shardway_mux_streams_total") > 0
		}},
		"parking": {proxy.Optimizations{Parking: true}, func(t *testing.T, change func(*proxy.Options)) bool {
			t.Helper()
			n := newNode(t, "a", webApp(t, longApp), change)
			n.ParkAfter(10*time.Millisecond, 10*time.Millisecond)
			c := n.dial()
			c.expectCounted(t, 10)
			parked := false
			for range 300 {
				if parked = n.Parked() > 0; parked {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			c.expectCounted(t, 10)
			return parked
		}},
		"splice": {proxy.Optimizations{Splice: true}, func(t *testing.T, change func(*proxy.Options)) bool {
			t.Helper()
			n := newNode(t, "a", webApp(t, longApp), change)
			var bytes atomic.Int64
			n.CountSpliced(&bytes)
			n.dial().expectCounted(t, 3_000_000)
			return bytes.Load() > 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !tt.used(t, func(*proxy.Options) {}) {
				t.Error("not used by default")
			}
			if tt.used(t, func(o *proxy.Options) { o.Disable = tt.disable }) {
				t.Error("used although it is disabled")
			}
		})
	}
}

// expectCounted requests n bytes from longApp and checks the body.
func (c *client) expectCounted(t *testing.T, n int) {
	t.Helper()
	if res, body := c.get("/" + strconv.Itoa(n)); res.StatusCode != http.StatusOK || body != counted(n) {
		t.Fatalf("%s: %d bytes, want %d", res.Status, len(body), n)
	}
}
