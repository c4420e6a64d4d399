package node_test

import (
	"slices"
	"testing"

	"shardway/admin/api"
	"shardway/shardmap"
)

// A new map that would change nothing is refused, with the reason.
func TestRebalanceWithoutMovesIsRefused(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		rebalance := api.Action{Verb: api.Rebalance, Reason: "new rack"}
		w.refused(w.follower(), rebalance, api.ErrRefused, "no shard would move: each shard has the owner")
		w.asks(w.follower(), api.Action{Verb: api.Pause, For: "1h"})
		w.asks(w.follower(), api.Action{Verb: api.Weigh, Node: "a", Weight: 7})
		for range 100 { // the weight becomes part of the map, although no shard moves
			w.moment()
		}
		before := w.committed()
		w.refused(w.follower(), rebalance, api.ErrRefused, "planned moves are paused for 1h")
		for range 50 {
			w.moment()
		}
		if w.committed().Epoch() != before.Epoch() {
			w.t.Errorf("epoch %d after epoch %d, although each request was refused", w.committed().Epoch(), before.Epoch())
		}
	})
}

// Every node shows what the end of a pause would move, and exactly that moves then.
func TestPlanIsTheNextMap(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		w.asks(p, api.Action{Verb: api.Pause, For: "1h"})
		w.asks(p, api.Action{Verb: api.Drain, Node: "c"}) // a drained node loses its shards also during a pause
		w.untilSettled("a", "b")
		if plan, err := p.node.API().Plan(w.t.Context()); err != nil || len(plan.Moves) > 0 || len(plan.Resumed) > 0 || plan.Pause != "1h" {
			w.t.Errorf("settled: %+v, %v", plan, err)
		}
		w.asks(p, api.Action{Verb: api.Uncordon, Node: "c"})
		w.until("c is a member, and owns nothing", func() bool {
			settled := true
			for _, at := range w.running() {
				m := at.node.State()
				settled = settled && !m.HasOpenProposal() && m.Committed().IsMember("c") && m.Committed().ShardCount("c") == 0 && m.Committed().Epoch() == w.committed().Epoch()
			}
			return settled
		})
		before := w.committed()
		planned := map[shardmap.Shard]shardmap.Move{}
		for _, at := range w.running() {
			plan, err := at.node.API().Plan(w.t.Context())
			if err != nil || len(plan.Moves) > 0 || plan.Epoch != uint64(before.Epoch()) {
				w.t.Errorf("%s, paused: %+v, %v", at.name, plan, err)
			}
			for _, m := range plan.Resumed {
				if m.Why != "uncordon" || m.To != "c" {
					w.t.Errorf("%s plans %+v, want moves to c, because of uncordon", at.name, m)
				}
				for _, s := range m.Shards {
					planned[shardmap.Shard(s)] = shardmap.Move{Shard: shardmap.Shard(s), From: shardmap.NodeID(m.From), To: shardmap.NodeID(m.To)}
				}
			}
		}
		w.asks(p, api.Action{Verb: api.Resume})
		w.until("c owns shards", func() bool { return w.committed().ShardCount("c") > 0 })
		moved := shardmap.Diff(before, w.committed())
		if len(moved) != len(planned) || slices.ContainsFunc(moved, func(m shardmap.Move) bool { return planned[m.Shard] != m }) {
			w.t.Errorf("moved %v, planned %v", moved, planned)
		}
	})
}
