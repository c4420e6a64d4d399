package node

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/peer"
	"shardway/proxy"
	"shardway/queue"
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
	n.proxy = proxy.New(proxy.Options{Cluster: n.router, Room: queue.New(queue.Options{})})
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

// What runs is waited for, but for kept sockets, which hand over: so many at a time, and those
// of one shard together, however many they are.
func TestShardsWithKeptSocketsAreIdle(t *testing.T) {
	running := map[shardmap.Shard]int{1: 3, 2: 3, 3: 30, 4: 200, 5: 300, 6: 1}
	legs := map[shardmap.Shard]int{1: 3, 2: 2, 3: 30, 4: 200, 5: 300} // a request runs for 2, and for 6
	for _, c := range []struct {
		most int
		want []shardmap.Shard
	}{
		{1000, []shardmap.Shard{0, 1, 3, 4, 5}},
		{233, []shardmap.Shard{0, 1, 3, 4}},
		{232, []shardmap.Shard{0, 1, 3}},
		{1, []shardmap.Shard{0, 1}},
	} {
		all := func(yield func(shardmap.Shard) bool) {
			for s := range shardmap.Shard(7) {
				if !yield(s) {
					return
				}
			}
		}
		if got := idleOf(all, func(s shardmap.Shard) int { return running[s] }, legs, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%d at a time: %v are idle, want %v", c.most, got, c.want)
		}
	}
}

// The sockets that a node has as it begins to be emptied are gone in three quarters of the time
// that is given, so many at each look; the fewer are left, the less is not left for later.
func TestHandOversAreSpread(t *testing.T) {
	by := ack.Emptying{For: 20 * time.Second, Since: 7}
	var p pacing
	for left, looks := 6000, 0; left > 0; looks++ {
		n := p.next(left, by)
		if n != 100 || looks == 60 {
			t.Fatalf("%d of %d left go at look %d, want 100 at each of 60", n, left, looks)
		}
		left -= n
	}
	if n := p.next(3, by); n != 100 {
		t.Errorf("of the last 3, %d go, want any", n)
	}
	by.Since++
	if n := p.next(60, by); n != leastHandsOver {
		t.Errorf("%d of 60 go the next time, want %d", n, leastHandsOver)
	}
	by.For, by.Since = time.Nanosecond, by.Since+1
	if n := p.next(6000, by); n != 6000 {
		t.Errorf("without time %d of 6000 go, want all", n)
	}
}
