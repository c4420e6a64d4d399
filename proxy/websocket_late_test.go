package proxy_test

import (
	"context"
	"net"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/wsframe"
)

// belated is a connection of which who reads learns only after a while that it has been closed,
// as on a machine that has much else to do.
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

// A busy node, whose lease was cut for that, took 300 ms until it saw that the leg had ended; by
// then it had cut its client, which was said to read too slowly. It had nothing to read.
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

// A client that reads nothing, at the node that has its app, keeps no shard there: what it does
// not take is not waited for.
func TestStalledClientDoesNotKeepShard(t *testing.T) {
	inSockets(t, func() *chat { return &chat{every: time.Millisecond, size: 30_000} }, func(t *socketTest) {
		if !t.local {
			return // the owner's near end is a node, which reads
		}
		c := t.front.socket()
		time.Sleep(time.Second) // until it takes no more
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

// Nor does one that does not answer the app's Close, once the shard is to be given up: it has
// ten seconds for that else.
func TestClientWithoutCloseReplyDoesNotKeepShard(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		_, _ = t.app.conn(0).Write(wsframe.AppendClose(nil, 4000, "", false))
		time.Sleep(10 * time.Millisecond) // until that has been passed on
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
