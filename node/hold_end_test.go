package node_test

import (
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

// held starts three nodes that restart in place, waits until they serve, and runs f.
func held(t *testing.T, f func(w *world)) {
	t.Helper()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.HoldGrace = 10 * time.Minute }
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		f(w)
	})
}

// ends stops a process, and returns how long it took to end.
func (p *process) ends() time.Duration {
	p.w.t.Helper()
	began := time.Now()
	p.terminate()
	if p.err != nil {
		p.w.t.Errorf("Run() of %s = %v", p.name, p.err)
	}
	return time.Since(began)
}

// A process that restarts in place ends once the log shows that its shards wait for it; otherwise a node that considers it dead would move
// them. A leader hands over leadership first.
func TestRestartInPlaceEndsOnceItIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{false, true} {
		held(t, func(w *world) {
			before := w.committed()
			p := w.voter(leads)
			took := p.ends()
			l := w.leader()
			if l == nil {
				w.t.Fatal("nobody leads as it ends")
			}
			if s := l.node.Known(); !s.Restarting(shardmap.NodeID(p.name)) || took > 2*time.Second {
				w.t.Errorf("ended after %v, and is waited for: %v", took, s.Restarting(shardmap.NodeID(p.name)))
			}
			time.Sleep(time.Minute)
			p.restart()
			w.untilSettled("a", "b", "c")
			if moved := shardmap.Diff(before, w.committed()); len(moved) > 0 {
				w.t.Errorf("%d shards have moved", len(moved))
			}
			// The log still contains the entry of the first restart, which does not count for the second.
			const slow = 300 * time.Millisecond
			w.leader().disk.slow(slow)
			if took := p.ends(); took < slow || !w.leader().node.Known().Restarting(shardmap.NodeID(p.name)) {
				w.t.Errorf("the second time it ended after %v, before it is waited for", took)
			}
			w.leader().disk.well()
			p.restart()
			w.untilSettled("a", "b", "c")
		})
	}
}

// No shards wait for a node that owns none, so it ends as soon as it has sent its leave notice.
func TestRestartInPlaceWithoutShardsWaitsForNothing(t *testing.T) {
	t.Parallel()
	held(t, func(w *world) {
		p := w.follower()
		w.asks(w.leader(), api.Action{Verb: api.Drain, Node: p.name})
		w.untilSettled(w.others(p)...)
		if took := p.ends(); took > time.Second {
			w.t.Errorf("it took %v to end", took)
		}
		if v, ok := w.leader().node.LeaderViewOf(p.name); !ok || !v.Heartbeat.Goodbye {
			w.t.Error("it ended without a goodbye")
		}
	})
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.HoldGrace = 10 * time.Minute }
		w.start("a")
		w.untilSettled("a")
		if took := w.all["a"].ends(); took > 2*time.Second {
			w.t.Errorf("alone it took %v to end", took)
		}
	})
}

// A node that fails while it restarts in place sends no leave notice: it is dead, and its shards move to other nodes.
func TestRestartInPlaceThatFailsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			o.HoldGrace, o.LameDuck = 10*time.Minute, func() time.Duration { return 5 * time.Second }
		}
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		p := w.follower()
		rest := w.others(p)
		p.stop()
		time.Sleep(time.Second)
		p.disk.breaks()
		w.asks(w.leader(), api.Action{Verb: api.Cordon, Node: p.name}) // a request that is written to the log
		w.within(3*time.Second, "it ends", p.ended)
		if p.err == nil || !strings.Contains(p.err.Error(), errBroken.Error()) {
			w.t.Errorf("Run() = %v, want it to name the reason", p.err)
		}
		p.host.Crash()
		w.within(10*time.Second, "its shards are taken", func() bool { return w.settled(rest...) })
	})
}
