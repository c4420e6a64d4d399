package node_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/e2e/kit/history"
	"shardway/shardmap"
)

// A drain moves idle shards within moments, although a request runs for another shard. That shard follows when the request has ended. At
// drain-timeout it moves in any case, and the request has drain-timeout once more.
func TestDrainMovesIdleShardsFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ runs, gone, most time.Duration }{
		"it ends before drain-timeout": {600 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond},
		"it ends while it is held":     {1500 * time.Millisecond, 1500 * time.Millisecond, 1800 * time.Millisecond},
		"it is cut":                    {15 * time.Second, 2 * time.Second, 2300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				s := newStorm(w, 1, ack.TakeoverLease)
				s.load = 0
				for _, name := range []string{"a", "b", "c"} {
					s.add(name, trait{weight: 1, rate: 1, expect: 3})
				}
				s.until("the cluster is there", s.whole)
				victim := w.follower()
				id := shardmap.NodeID(victim.name)
				var busy shardmap.Shard
				for busy = range w.committed().Shards(id) {
					break
				}
				var answer history.Response
				s.c.send(s.leader(), busy, http.MethodPost, c.runs, func(a history.Response) { answer = a })
				s.within(time.Second, "it runs", func() bool { return w.witness.runsOf(victim.name) > 0 })
				if err := victim.node.API().Do(context.Background(), api.Action{Verb: api.Drain, Node: victim.name}); err != nil {
					w.t.Fatal(err)
				}
				asked := time.Now()
				s.within(300*time.Millisecond, "idle shards have moved", func() bool {
					return w.committed().ShardCount(id) == 1 && w.committed().Owner(busy) == id
				})
				s.within(time.Minute, "nothing is left there", func() bool { return !w.committed().IsMember(id) })
				if gone := time.Since(asked); gone < c.gone-300*time.Millisecond || gone > c.most {
					w.t.Errorf("nothing was left there after %v, want %v", gone, c.gone)
				}
				s.within(time.Minute, "it is answered", func() bool { return s.c.wait.Load() == 0 })
				if cut := answer.Status != http.StatusOK; cut != (c.runs > c.gone) {
					w.t.Errorf("what ran got %d %s", answer.Status, answer.Error)
				}
			})
		})
	}
}

// A shard with a long request is excluded from every later question, so the leader proposes no map for it before drain-timeout. A map with
// that shard would queue its requests without benefit.
func TestLongRequestCostsNoMapBeforeDrainTimeout(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		s := newStorm(w, 1, ack.TakeoverLease)
		s.load = 0
		for _, name := range []string{"a", "b", "c"} {
			s.add(name, trait{weight: 1, rate: 1, expect: 3})
		}
		s.until("the cluster is there", s.whole)
		victim := w.follower()
		id := shardmap.NodeID(victim.name)
		var busy shardmap.Shard
		for busy = range w.committed().Shards(id) {
			break
		}
		s.c.send(s.leader(), busy, http.MethodPost, 15*time.Second, nil)
		s.within(time.Second, "it runs", func() bool { return w.witness.runsOf(victim.name) > 0 })
		if err := victim.node.API().Do(context.Background(), api.Action{Verb: api.Drain, Node: victim.name}); err != nil {
			w.t.Fatal(err)
		}
		s.within(300*time.Millisecond, "idle shards have moved", func() bool {
			return w.committed().ShardCount(id) == 1 && w.committed().Owner(busy) == id
		})
		moved := s.leader().node.State().Proposed().Epoch()
		w.during(func() { time.Sleep(drainTimeout / 2) })
		if last := s.leader().node.State().Proposed(); last.Epoch() != moved || last.Owner(busy) != id {
			w.t.Errorf("map %d was proposed after map %d, and the request still runs", last.Epoch(), moved)
		}
		s.within(time.Minute, "nothing is left there", func() bool { return !w.committed().IsMember(id) })
		s.within(time.Minute, "it is answered", func() bool { return s.c.wait.Load() == 0 })
	})
}
