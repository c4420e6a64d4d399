package connpool

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"shardway/proxy/h1"
)

// A stream that was opened for a WebSocket is given to a WebSocket only. A request that waits at the
// same time gets a dialed connection.
func TestWebSocketSessionsServeWebSocketsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := func(lone bool) *Conn {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
			return &Conn{Conn: h1.NewConn(near, h1.Options{}), SingleUse: lone}
		}
		lanes, connections := make(chan struct{}), make(chan struct{}) // closed to let the opens and dials finish
		var dials atomic.Int32
		p := testPool("owner", func(context.Context) (*Conn, error) {
			dials.Add(1)
			<-connections
			return made(false), nil
		})
		p.opts.OpenWebSocketStream = func(context.Context) *Conn {
			<-lanes
			return made(true)
		}
		request := &Waiter{Shard: NoShard}
		sockets := []*Waiter{{Shard: NoShard, ForUpgrade: true, StreamAllowed: true}, {Shard: NoShard, ForUpgrade: true}, {Shard: NoShard, ForUpgrade: true, StreamAllowed: true}}
		all := append(sockets, request)
		for _, waiter := range all {
			if conn, _, err := p.Join(waiter); conn != nil || err != nil {
				t.Fatalf("join = %v, %v", conn, err)
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
		for i, waiter := range all {
			got := <-waiter.granted
			if got.conn == nil || got.conn.SingleUse && !waiter.StreamAllowed {
				t.Errorf("waiter %d is given %+v", i, got)
			}
			if got.conn != nil {
				p.Discard(got.conn)
			}
		}
	})
}
