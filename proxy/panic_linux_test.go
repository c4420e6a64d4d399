package proxy_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/shardmap"
)

// buggyAtEnd is a Cluster that panics once at the end of a request.
type buggyAtEnd struct {
	*node
	armed atomic.Bool
}

func (b *buggyAtEnd) Admit(s shardmap.Shard) (uint64, func(), error) {
	epoch, release, err := b.node.Admit(s)
	if err != nil {
		return epoch, release, err
	}
	return epoch, func() {
		release()
		if b.armed.CompareAndSwap(true, false) {
			panic("release")
		}
	}, nil
}

// A request that panics after its response is counted by its response and as a panic. Once, a request
// in an event loop was missing from the count of responses.
func TestPanicIsCountedInEveryGoroutine(t *testing.T) {
	app := webApp(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	for _, looped := range []bool{true, false} {
		b := &buggyAtEnd{}
		n := newNode(t, "owner", app, func(o *proxy.Options) {
			b.node, _ = o.Cluster.(*node)
			o.Cluster, o.Log = b, zerolog.Nop()
		})
		c := n.dialToLoop()
		b.armed.Store(true)
		request := "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n"
		if !looped {
			request += "Connection: close\r\n"
		}
		c.send("%s\r\n", request)
		_, _ = io.Copy(io.Discard, c.r) // reads what was written before the panic
		until(t, "the connection is gone", func() bool { return metric(t, n, "shardway_connections") == 0 })
		for name, want := range map[string]float64{"shardway_request_duration_seconds": 2, "shardway_panics_total": 1, "shardway_eventloop_connections": 0} {
			if got := metric(t, n, name); got != want {
				t.Errorf("in a loop: %v: %s = %v, want %v", looped, name, got, want)
			}
		}
		if n.running.Load() != 0 {
			t.Errorf("in a loop: %v: it counts as running", looped)
		}
	}
}
