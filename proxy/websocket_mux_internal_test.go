package proxy

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"shardway/proxy/h1"
)

// What is opened for a socket is given to one, and a request that stands in line beside it has
// a connection made.
func TestWebSocketSessionsServeWebSocketsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := func(lone bool) *upstreamConn {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
			return &upstreamConn{Conn: h1.NewConn(near, h1.Options{}), singleUse: lone}
		}
		lanes, connections := make(chan struct{}), make(chan struct{}) // closed once they may be
		var dials atomic.Int32
		p := testPool("owner", func(context.Context) (*upstreamConn, error) {
			dials.Add(1)
			<-connections
			return made(false), nil
		})
		p.opts.OpenWebSocketStream = func(context.Context) *upstreamConn {
			<-lanes
			return made(true)
		}
		request := &waiter{shard: noShard}
		sockets := []*waiter{{shard: noShard, forUpgrade: true, streamAllowed: true}, {shard: noShard, forUpgrade: true}, {shard: noShard, forUpgrade: true, streamAllowed: true}}
		all := append(sockets, request)
		for _, w := range all {
			if l, _, err := p.join(w); l != nil || err != nil {
				t.Fatalf("join = %v, %v", l, err)
			}
		}
		synctest.Wait()
		if n := dials.Load(); n != 1 {
			t.Errorf("%d connections are being made for a request, while lanes are for sockets", n)
		}
		close(lanes)
		synctest.Wait()
		if len(request.granted) != 0 {
			t.Error("a request is given the lane of a socket")
		}
		close(connections)
		for i, w := range all {
			got := <-w.granted
			if got.conn == nil || got.conn.singleUse && !w.streamAllowed {
				t.Errorf("waiter %d is given %+v", i, got)
			}
			if got.conn != nil {
				p.discard(got.conn)
			}
		}
	})
}
