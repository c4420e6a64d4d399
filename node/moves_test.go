package node_test

import (
	"slices"
	"testing"

	"shardway/admin/api"
	"shardway/shardmap"
)

// The reason for each shard's location is in the log: every node reports the same, also a later leader and a restarted node.
func TestEveryNodeReportsWhyAShardMoved(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		crashed := w.voter(true)
		shard := shardmap.Shard(slices.IndexFunc(crashed.node.API().Shards().Shards, func(s api.Shard) bool { return s.Owner == crashed.name }))
		crashed.kill()
		w.untilSettled(w.others(crashed)...)
		crashed.restart()
		w.untilSettled("a", "b", "c")
		next := w.committed().Owner(shard) // it may be back at its first owner
		w.asks(w.leader(), api.Action{Verb: api.Drain, Node: string(next)})
		w.until("it owns nothing", func() bool { return w.committed().ShardCount(next) == 0 })
		w.until("all know", func() bool {
			for _, p := range w.running() {
				if p.node.State().Committed().ShardCount(next) > 0 {
					return false
				}
			}
			return true
		})
		want := w.all["a"].node.Moves(uint32(shard))
		for _, p := range w.running() {
			if got := p.node.Moves(uint32(shard)); !slices.Equal(got, want) {
				t.Errorf("%s tells %+v, a %+v", p.name, got, want)
			}
		}
		for _, why := range []struct{ from, reason string }{{"", "join"}, {crashed.name, "crashed"}, {string(next), "drain"}} {
			if !slices.ContainsFunc(want, func(m api.Move) bool { return m.From == why.from && m.Reason == why.reason }) {
				t.Errorf("no move from %q because %q: %+v", why.from, why.reason, want)
			}
		}
		row := w.all["a"].node.API().Shards().Shards[shard]
		if last := want[len(want)-1]; last.To != row.Owner || last.From != row.Previous || last.Epoch != row.Epoch {
			t.Errorf("the last move is %+v, the shard %+v", last, row)
		}
	})
}
