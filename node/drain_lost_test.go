package node_test

import (
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/shardmap"
)

// A local drain without a leader reports that its shards are blocked for that reason. On a single node, it reports that no other node can
// take them. A node without shards reports no blocked shards.
func TestDrainOfLocalNodeReportsWhatBlocksIt(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p, q := w.follower(), w.leader()
		for _, other := range w.others(p) {
			w.net.Reset(p.name, other) // gossip still passes
		}
		w.until("no leader answers it", func() bool { return strings.Contains(p.node.API().DrainSelf().Warning, "no leader responds") })
		if d := p.node.API().SelfState(); d.Shards == 0 || d.BlockedBy != "" {
			w.t.Errorf("a moment later: %+v, want that it waits", d)
		}
		w.until("its shards stay", func() bool { return p.node.API().SelfState().BlockedBy == "no contact to a leader" })
		w.net.Heal()
		w.untilSettled(w.others(p)...)
		w.until("nothing is left", func() bool { d := p.node.API().SelfState(); return !d.Left() && d.BlockedBy == "" })
		w.net.Isolate(p.name)
		time.Sleep(time.Minute)
		if d := p.node.API().SelfState(); d.BlockedBy != "" {
			w.t.Errorf("of no shards it says %q", d.BlockedBy)
		}
		w.net.Heal()
		w.untilSettled(w.others(p)...)
		if d := q.node.API().SelfState(); d.Requested || d.BlockedBy != "" && d.Shards == 0 {
			w.t.Errorf("of one that was not asked: %+v", d)
		}
	})
	bubble(t, func(w *world) {
		w.start("a")
		w.untilSettled("a")
		a := w.all["a"].node
		a.API().DrainSelf()
		w.until("it says that it is alone", func() bool { return a.API().SelfState().BlockedBy == "there is no other node" })
	})
}

// A drain is not complete before the map without the node is in force. If the node does not report what it runs, the drain waits the full
// time for it.
func TestDrainIsNotOverBeforeItsMapIsInForce(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		id := shardmap.NodeID(p.name)
		var end func()
		for s := range shardmap.Shard(shards) {
			if release, ok := p.node.Run1(s); ok {
				end = release
				break
			}
		}
		w.asks(w.leader(), api.Action{Verb: api.Drain, Node: p.name})
		at := w.leader()
		w.until("a map without it is proposed", func() bool { return at.node.Known().Proposed().ShardCount(id) == 0 })
		if d, err := at.node.API().DrainState(w.t.Context(), p.name); err != nil || d.Shards == 0 || !d.Left() {
			w.t.Errorf("DrainState = %+v, %v, want that it still owns shards", d, err)
		}
		end()
		w.untilSettled(w.others(p)...)
		w.net.Isolate(p.name)
		began := time.Now()
		d, err := at.node.API().DrainState(w.t.Context(), p.name)
		if took := time.Since(began); err != nil || d.Requests != -1 || took > time.Second {
			w.t.Errorf("DrainState of one that does not say = %+v, %v, after %v", d, err, took)
		}
		w.net.Heal()
	})
}
