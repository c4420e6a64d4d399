package leaderloop

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/node/cluster"
	"shardway/node/control"
	"shardway/peer"
	"shardway/shardmap"
)

// collector returns a leader with the state s that queries other nodes for idle shards over dial. All of its own shards are busy.
func collector(s *ack.State, self shardmap.NodeID, dial func(context.Context, string) (net.Conn, error)) *Leadership {
	port := peer.New(peer.Options{
		Node: string(self), Disk: "d", Boot: 1, Cluster: func() string { return "c" }, Dial: dial,
		Lookup: func(node string) (string, bool) { return node + ":1", true },
	})
	o := Options{
		Self: self, Client: control.NewClient(port, zerolog.Nop()), View: cluster.NewView(string(self), string(self)+"/d", ack.DefaultTiming(), func() *ack.State { return s }),
		IdleShards: func() IdleReport { return IdleReport{} },
	}
	return &Leadership{options: o, Log: zerolog.Nop(), messages: make(chan leader.Message, 1), loopEnded: make(chan struct{})}
}

// A node that does not respond delays the leader's questions to others only for a limited time.
func TestIdleQueryTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := collector(ack.NewState(), "a", func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })
		began := time.Now()
		l.collectIdleShards(t.Context(), "b")
		if took := time.Since(began); took != idleRequestTimeout || len(l.messages) > 0 {
			t.Errorf("asked for %v, and %d answers, want %v and none", took, len(l.messages), idleRequestTimeout)
		}
	})
}

// Reports to a busy leader wait no longer than the leadership, or the question, lasts.
func TestIdleShardsReachOnlyTheLeader(t *testing.T) {
	for _, over := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := collector(ack.NewState(), "a", nil)
			l.messages = make(chan leader.Message) // no goroutine receives it
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := cancel
			if over {
				end = func() { close(l.loopEnded) }
			}
			time.AfterFunc(time.Second, end)
			began := time.Now()
			l.collectIdleShards(ctx, "a")
			if took := time.Since(began); took != time.Second {
				t.Errorf("waited for %v, want 1s", took)
			}
		})
	}
}

// All nodes are queried for idle shards at once. A node that does not respond delays the others only by its timeout, and all responses are
// delivered together: otherwise the first one would begin a round without the others.
func TestNodesAreAskedTogetherWhatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := collector(ack.NewState(), "a", func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })
		l.messages = make(chan leader.Message, 3)
		early := make(chan int, 1)
		time.AfterFunc(idleRequestTimeout/2, func() { early <- len(l.messages) })
		began := time.Now()
		l.collectIdleShards(t.Context(), "a", "b", "c")
		if early := <-early; early != 0 {
			t.Errorf("%d answers were told before all had answered", early)
		}
		if took := time.Since(began); took != idleRequestTimeout || len(l.messages) != 1 {
			t.Errorf("asked for %v, and %d answers, want %v and this node's", took, len(l.messages), idleRequestTimeout)
		}
	})
}
