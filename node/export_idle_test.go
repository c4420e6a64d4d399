package node

import (
	"context"
	"net"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/internal/clock"
	"shardway/node/cluster"
	"shardway/node/control"
	"shardway/node/idleshards"
	"shardway/node/leaderloop"
	"shardway/node/router"
	"shardway/peer"
	"shardway/proxy"
	"shardway/queue"
	"shardway/shardmap"
)

// AskIdle returns the idle shards of node of that a leader with the state s receives. false means that it received none.
func AskIdle(ctx context.Context, s *ack.State, self, of shardmap.NodeID, dial func(context.Context, string) (net.Conn, error)) (told leader.IdleShards, ok bool) {
	port := peer.New(peer.Options{
		Node: string(self), Disk: "d", Boot: 1, Cluster: func() string { return "c" }, Dial: dial,
		Lookup: func(node string) (string, bool) { return node + ":1", true },
	})
	shards := max(s.Shards(), 1)
	r := router.New(self, shards, clock.Virtual(), port)
	r.SwapTable(ack.NewRouting(self, s, 0, false))
	tracker := &idleshards.Tracker{
		Self: self, Clock: clock.Virtual(), Router: r, Proxy: proxy.New(proxy.Options{Cluster: r, Queue: queue.New(queue.Options{})}),
		Holds: idleshards.NewHolds(), Stages: new(idleshards.Stages),
	}
	view := cluster.NewView(string(self), string(self)+"/d", ack.DefaultTiming(), func() *ack.State { return s })
	l, _, _ := leaderloop.NewWithoutLoop(leaderloop.Options{Self: self, Client: control.NewClient(port, zerolog.Nop()), View: view, IdleShards: tracker.Answer}, 1, 0)
	if m := l.FetchIdleShards(ctx, of); m != nil {
		return *m, true
	}
	return told, false
}
