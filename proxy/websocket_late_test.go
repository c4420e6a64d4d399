package proxy_test

import (
	"context"
	"net"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/wsframe"
)

// belated is a connection whose reader sees the close after a delay, as on a busy machine.
type belated struct {
	net.Conn
	by time.Duration
}

func (b *belated) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if err != nil {
		time.Sleep(b.by)
	}
	return n, err
}

// A busy node does not abort a client because it detects the end of an upstream connection late. Once,
// a node whose lease had expired needed 300 ms for it and aborted the client as a slow reader,
// although the client had nothing to read.
func TestLateNodeAbortsNoClient(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.orphan()
		t.a.CancelUpstream("lapsed")
		t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
		t.own(t.b)
		c.sendText("two")
		t.until("got", t.app.has(2))
		if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "1" {
			t.Errorf("%v", h)
		}
		_ = c.Close()
	}, func(o *proxy.Options) {
		dial := o.DialUpstream
		o.DialUpstream = func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return &belated{conn, 2 * time.Second}, nil
		}
	})
}

// A client that reads nothing does not keep its shard at the node, even if the node runs the client's
// app. The move does not wait for unread data.
func TestStalledClientDoesNotKeepShard(t *testing.T) {
	inSockets(t, func() *chat { return &chat{every: time.Millisecond, size: 30_000} }, func(t *socketTest) {
		if !t.local {
			return // the client side of the owner is another node, which reads
		}
		c := t.front.socket()
		time.Sleep(time.Second) // until the client's buffers are full
		t.orphan()
		t.a.CancelUpstream("lapsed")
		began := time.Now()
		t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("that took %v", took)
		}
		_ = c.Close()
	})
}

// A client that does not answer the app's Close frame does not delay a move of its shard. Without a
// move, it has ten seconds for its reply.
func TestClientWithoutCloseReplyDoesNotKeepShard(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		_, _ = t.app.conn(0).Write(wsframe.AppendClose(nil, 4000, "", false))
		time.Sleep(10 * time.Millisecond) // until the Close frame has been forwarded
		t.orphan()
		t.a.CancelUpstream("lapsed")
		began := time.Now()
		t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("that took %v", took)
		}
		c.wantClosed(4000)
	})
}
