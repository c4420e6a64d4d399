package node_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/diagnosis"
	"shardway/shardmap"
)

// acquiresBadly starts three nodes. fails returns the result of an acquire at a node.
func (w *world) acquiresBadly(fails func(ctx context.Context, node string, c agent.HookCall) error) {
	w.hooked(newLedger(), func(name string) func(context.Context, agent.HookCall) error {
		return func(ctx context.Context, c agent.HookCall) error {
			if c.Kind != agent.HookAcquire {
				return nil
			}
			return fails(ctx, name, c)
		}
	})
	for _, name := range []string{"a", "b", "c"} {
		w.start(name)
	}
}

// An app answers each acquire with an error, or never. Every node reports the outage; then the shards move to the other nodes, and return
// when the app can acquire again. Until then the node probes its app with acquires without shards, so that no request waits for the
// attempts.
func TestShardsLeaveAppThatDoesNotAcquire(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		bubble(t, func(w *world) {
			var bad atomic.Bool
			bad.Store(true)
			var asked atomic.Int64 // shards of the acquires at node c
			w.acquiresBadly(func(ctx context.Context, node string, c agent.HookCall) error {
				switch {
				case node != "c" || !bad.Load():
					return nil
				case hangs:
					asked.Add(int64(len(c.Shards)))
					<-ctx.Done()
					return ctx.Err()
				}
				asked.Add(int64(len(c.Shards)))
				return errors.New("status 500")
			})
			for _, name := range []string{"a", "b", "c"} {
				w.until(name+" reports the outage", func() bool {
					for _, f := range w.all[name].node.Findings() {
						if f.Code == diagnosis.Acquiring && f.Severity == diagnosis.Outage && strings.Contains(f.Text, "the app of node c does not acquire") {
							return true
						}
					}
					return false
				})
			}
			w.within(5*time.Minute, "c owns nothing", func() bool { return w.committed().ShardCount("c") == 0 })
			w.until("every shard is served", w.allServed)
			for _, name := range []string{"a", "b", "c"} {
				w.untilFindingsAre(w.all[name], "acquiring: the app of node c acquires no shards")
			}
			epoch, before := w.committed().Epoch(), asked.Load()
			time.Sleep(time.Duration(share(30, 3)) * time.Minute)
			if w.committed().Epoch() != epoch || asked.Load() != before || !w.allServed() {
				w.t.Errorf("epoch %d became %d, and the app of c was to acquire %d shards; want nothing to move", epoch, w.committed().Epoch(), asked.Load()-before)
			}
			bad.Store(false)
			w.within(15*time.Minute, "c owns its share", func() bool { return w.committed().ShardCount("c") == shards/3 })
			w.until("every shard is served", w.allServed)
			for _, name := range []string{"a", "b", "c"} {
				w.untilFindingsAre(w.all[name])
			}
		})
	}
}

// An app fails to acquire one shard. That shard moves to another node and stays there; all others stay where they are.
func TestShardLeavesAppThatDoesNotAcquireIt(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		var bad atomic.Int64
		bad.Store(-1)
		w.acquiresBadly(func(_ context.Context, node string, c agent.HookCall) error {
			for _, s := range c.Shards {
				if node == "c" && int64(s.Shard) == bad.Load() {
					return errors.New("no volume")
				}
			}
			return nil
		})
		w.untilSettled("a", "b", "c")
		w.until("every shard is served", w.allServed)
		var s shardmap.Shard
		for s = range w.committed().Shards("c") {
			break
		}
		before := w.committed()
		bad.Store(int64(s))
		c := w.all["c"]
		epoch, _ := c.node.Admits(s)
		c.node.NotAcquired(s, epoch)
		w.within(time.Minute, "the shard has left c", func() bool { return w.committed().Owner(s) != "c" })
		w.until("every shard is served", w.allServed)
		if moved := len(shardmap.Diff(before, w.committed())); moved > 2 { // one more shard keeps the shares even
			w.t.Errorf("%d shards moved, want shard %d and at most one for it", moved, s)
		}
		w.untilFindingsAre(w.all["a"], "acquiring: the app of node c did not acquire 1 shard, so other nodes own it")
		after := w.committed().Epoch()
		time.Sleep(time.Duration(share(20, 3)) * time.Minute)
		if w.committed().Epoch() != after {
			w.t.Errorf("epoch %d became %d, though nothing has changed", after, w.committed().Epoch())
		}
		w.untilFindingsAre(w.all["a"])
	})
}

// If no app acquires, nothing moves, every node reports the outage, and all shards are served as soon as the apps acquire again.
func TestNothingMovesWhileNoAppAcquires(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		var bad atomic.Bool
		bad.Store(true)
		w.acquiresBadly(func(context.Context, string, agent.HookCall) error {
			if bad.Load() {
				return errors.New("the database is down")
			}
			return nil
		})
		w.untilSettled("a", "b", "c")
		time.Sleep(time.Minute)
		epoch := w.committed().Epoch()
		time.Sleep(time.Duration(share(20, 3)) * time.Minute)
		if w.committed().Epoch() != epoch {
			w.t.Errorf("epoch %d became %d while no app acquires", epoch, w.committed().Epoch())
		}
		for _, p := range w.running() {
			for _, name := range []string{"a", "b", "c"} {
				w.untilFindingsAre(p, "acquiring: the app of node "+name)
			}
			if diagnosis.Worst(p.node.Findings()) != diagnosis.Outage {
				w.t.Errorf("%s finds %v, want an outage", p.name, p.node.Findings())
			}
		}
		bad.Store(false)
		w.until("every shard is served", w.allServed)
		for _, p := range w.running() { // the leader's shards had moved before all apps were known to fail
			w.within(15*time.Minute, p.name+" finds nothing", func() bool { return diagnosis.Worst(p.node.Findings()) <= diagnosis.Info })
		}
		w.untilSettled("a", "b", "c")
	})
}
