package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"testing"

	"shardway/ack/leader"
	"shardway/internal/simnet"
	"shardway/node"
	"shardway/peer"
	"shardway/shardmap"
)

// replies serves the control streams of a host as node b, and answers each question for idle shards with a value.
func replies(w *world, h *simnet.Host, value string) (end func()) {
	ln, err := h.Listen(":1")
	if err != nil {
		w.t.Fatal(err)
	}
	port := peer.New(peer.Options{Node: "b", Disk: "d", Boot: 1, Cluster: func() string { return "c" }, IsKnownNode: func(string) bool { return true }})
	port.Handle(peer.Control, func(_ context.Context, c *peer.Conn) {
		defer func() { _ = c.Close() }()
		b, err := peer.ReadFrame(c, nil, 1<<20)
		var q struct {
			What string `json:"what"`
		}
		if err == nil && json.Unmarshal(b, &q) == nil && q.What == "idle" {
			_ = peer.WriteFrame(c, []byte(value))
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { // ends with end
		defer close(served)
		_ = port.Serve(ctx, ln)
	}()
	return func() {
		stop()
		<-served
	}
}

// The idle shards of a node are the ones that it reports itself, for the map that it uses. If it reports none, the leader does not use its
// own shards instead, and the leader sends no question to itself.
func TestIdleShardsAreTheOnesThatTheNodeReports(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.untilSettled("a")
		s := w.all["a"].node.State()
		here := w.net.Host("here")
		for i, tc := range []struct {
			reply string
			want  leader.IdleShards
			told  bool
		}{
			{`{"value":{"map":7,"shards":[1,3]}}`, leader.IdleShards{Node: "b", MapEpoch: 7, Shards: []shardmap.Shard{1, 3}}, true},
			{`{"value":{}}`, leader.IdleShards{Node: "b"}, true},
			{`{"error":"no"}`, leader.IdleShards{}, false},
		} {
			h := w.net.Host(string(rune('p' + i)))
			end := replies(w, h, tc.reply)
			got, told := node.AskIdle(w.t.Context(), s, "a", "b", func(ctx context.Context, _ string) (net.Conn, error) { return here.Dial(ctx, h.Addr(1)) })
			if told != tc.told || got.Node != tc.want.Node || got.MapEpoch != tc.want.MapEpoch || !slices.Equal(got.Shards, tc.want.Shards) {
				w.t.Errorf("%s is taken for %+v, %v, want %+v", tc.reply, got, told, tc.want)
			}
			end()
		}
		got, told := node.AskIdle(w.t.Context(), s, "a", "a", func(context.Context, string) (net.Conn, error) { return nil, errors.New("asked itself") })
		if !told || got.Node != "a" || got.MapEpoch != s.Committed().Epoch() || len(got.Shards) != shards {
			w.t.Errorf("of itself %+v, %v, want all %d shards by epoch %d", got, told, shards, s.Committed().Epoch())
		}
	})
}
