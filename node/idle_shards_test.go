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

// A drain with idle-first moves shards without running requests immediately, and each other shard when its requests end. A normal drain
// aborts requests that run longer than --drain-timeout. The drain does not wait beyond its own timeout.
func TestGentleDrainWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gently time.Duration
		want   int
	}{"it ends in time": {30 * time.Second, http.StatusOK}, "it does not": {4 * time.Second, http.StatusBadGateway}} {
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
				s.c.send(s.leader(), busy, http.MethodPost, 15*time.Second, func(a history.Response) { answer = a })
				s.within(time.Second, "it runs", func() bool { return w.witness.runsOf(victim.name) > 0 })
				must := func(err error) {
					if err != nil {
						w.t.Fatal(err)
					}
				}
				must(victim.node.API().Do(context.Background(), api.Action{Verb: api.Drain, Node: victim.name, IdleFirst: c.gently.String()}))
				asked := time.Now()
				s.within(3*time.Second, "only what runs is left there", func() bool { return w.committed().ShardCount(id) == 1 && w.committed().Owner(busy) == id })
				s.within(time.Minute, "nothing is left there", func() bool { return !w.committed().IsMember(id) })
				if gone := time.Since(asked); c.want != http.StatusOK && (gone < c.gently || gone > c.gently+3*time.Second) {
					w.t.Errorf("all had gone after %v, want %v and a drain", gone, c.gently)
				}
				s.within(time.Minute, "it is answered", func() bool { return s.c.wait.Load() == 0 })
				if answer.Status != c.want {
					w.t.Errorf("what ran got %d %s, want %d", answer.Status, answer.Error, c.want)
				}
				if p := s.policy(); !p.Drained[id] || len(p.GradualDrains) > 0 {
					w.t.Errorf("in the end it is asked for %+v, want a drain", *p)
				}
			})
		})
	}
}
