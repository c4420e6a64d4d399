package proxy_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"shardway/proxy"
)

// peerDials is a Cluster that records the connections to other nodes.
type peerDials struct {
	proxy.Cluster
	mu    *sync.Mutex
	conns *[]net.Conn
}

func (c peerDials) Dial(ctx context.Context, node string) (net.Conn, error) {
	conn, err := c.Cluster.Dial(ctx, node)
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.conns = append(*c.conns, conn)
	return conn, err
}

// A PUT whose connection has broken gets the response that it may have run. Once, it got the response
// that it has not run, if other requests waited for the limit of its shard in the meantime.
func TestRequestThatMayHaveRunIsNotReportedAsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var conns []net.Conn
		w := newStreams(t, false, fastRamp, func(o *proxy.Options) {
			o.MaxShardInflight = 1
			o.Cluster = peerDials{o.Cluster, &mu, &conns}
		})
		w.opens("PUT / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
		w.crowds(4)
		mu.Lock()
		_ = conns[0].Close()
		mu.Unlock()
		if res, body := w.c.answer("PUT"); res.Header.Get("Shardway-Error") != "peer-unreachable" {
			t.Errorf("%s %s: %s, want peer-unreachable", res.Status, res.Header.Get("Shardway-Error"), body)
		}
	})
}
