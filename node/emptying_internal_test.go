package node

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/peer"
	"shardway/shardmap"
)

// emptier is a leader in a state of its own that asks others what is idle there, over dial.
func emptier(s *ack.State, self shardmap.NodeID, dial func(context.Context, string) (net.Conn, error)) *leadership {
	n := &Node{self: self, log: zerolog.Nop()}
	n.port = peer.New(peer.Options{
		Node: string(self), Disk: "d", Boot: 1, Cluster: func() string { return "c" }, Dial: dial,
		Lookup: func(node string) (string, bool) { return node + ":1", true },
	})
	n.router = newRouter(self, max(s.Shards(), 1), clock.Virtual(), n.port)
	n.router.state.Store(s)
	return &leadership{n: n, log: zerolog.Nop(), messages: make(chan ack.Message, 1), done: make(chan struct{})}
}

// AskIdle returns what a leader in a state is told of what is idle at a node; false: nothing.
func AskIdle(ctx context.Context, s *ack.State, self, of shardmap.NodeID, dial func(context.Context, string) (net.Conn, error)) (told ack.Idle, ok bool) {
	l := emptier(s, self, dial)
	l.askIdle(ctx, of)
	select {
	case m := <-l.messages:
		told, ok = m.(ack.Idle)
	default:
	}
	return told, ok
}

// A node that says nothing does not keep the leader from asking others for long.
func TestIdleIsWaitedForSoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := emptier(ack.NewState(), "a", func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })
		began := time.Now()
		l.askIdle(t.Context(), "b")
		if took := time.Since(began); took != idleTimeout || len(l.messages) > 0 {
			t.Errorf("asked for %v, and %d answers, want %v and none", took, len(l.messages), idleTimeout)
		}
	})
}

// What is told to a leader that is busy waits no longer than the leadership, or the asking.
func TestIdleIsToldWhileItLeads(t *testing.T) {
	for _, over := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := emptier(ack.NewState(), "a", nil)
			l.messages = make(chan ack.Message) // nobody takes it
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := cancel
			if over {
				end = func() { close(l.done) }
			}
			time.AfterFunc(time.Second, end)
			began := time.Now()
			l.askIdle(ctx, "a")
			if took := time.Since(began); took != time.Second {
				t.Errorf("waited for %v, want 1s", took)
			}
		})
	}
}
