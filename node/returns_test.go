package node_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
	"shardway/node/apphealth"
	"shardway/shardmap"
)

// cachingApps are the apps of a world. They have no hooks, and outlive their nodes.
type cachingApps struct {
	w        *world
	down     guarded[bool]
	hung     guarded[bool]
	instance guarded[string]
}

// guarded has a value for each node, which tests change while goroutines of nodes read it.
type guarded[V any] struct{ m sync.Map }

func (g *guarded[V]) set(id string, v V) { g.m.Store(id, v) }

func (g *guarded[V]) get(id string) (v V) {
	if x, ok := g.m.Load(id); ok {
		v, _ = x.(V)
	}
	return v
}

var errRefused = &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// newCachingApps gives every node that starts from now on such an app, and makes it bar returning shards.
func newCachingApps(w *world) *cachingApps {
	c := &cachingApps{w: w}
	w.tune = func(o *node.Options) {
		id := o.Dir.Node()
		o.AfterRestart = true
		o.Health = apphealth.Settings{Interval: 500 * time.Millisecond, Timeout: time.Second, Fall: 2, Rise: 1}
		o.CheckApp = func(ctx context.Context) error {
			switch {
			case c.down.get(id):
				return errRefused
			case c.hung.get(id):
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		o.AppInstance = func() string { return c.instance.get(id) }
	}
	return c
}

// owned returns the shards of a node.
func (w *world) owned(id string) []shardmap.Shard {
	return slices.Collect(w.committed().Shards(shardmap.NodeID(id)))
}

// drainedAndBack drains a node, calls between, and takes the drain back.
func (w *world) drainedAndBack(id string, between func()) {
	w.t.Helper()
	w.asks(w.leader(), api.Action{Verb: api.Drain, Node: id})
	w.until("nothing is left at "+id, func() bool { return w.committed().ShardCount(shardmap.NodeID(id)) == 0 })
	between()
	w.asks(w.leader(), api.Action{Verb: api.Uncordon, Node: id})
	w.until(id+" owns shards again", func() bool { return w.committed().ShardCount(shardmap.NodeID(id)) == shards/3 })
}

// both counts the shards that are in both lists.
func both(a, b []shardmap.Shard) int {
	n := 0
	for _, s := range a {
		if slices.Contains(b, s) {
			n++
		}
	}
	return n
}

// inCachingWorld runs f in a cluster of three nodes whose apps cache.
func inCachingWorld(t *testing.T, f func(w *world, c *cachingApps, victim *process)) {
	t.Helper()
	t.Parallel()
	bubble(t, func(w *world) {
		c := newCachingApps(w)
		for _, n := range []string{"a", "b", "c"} {
			c.instance.set(n, n+" 1")
			w.start(n)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		f(w, c, w.follower())
	})
}

func TestDrainedShardsDoNotReturnToTheApp(t *testing.T) {
	inCachingWorld(t, func(w *world, _ *cachingApps, victim *process) {
		was := w.owned(victim.name)
		w.drainedAndBack(victim.name, func() {})
		if n := both(was, w.owned(victim.name)); n != 0 {
			t.Errorf("%d shards went back to the app that had them", n)
		}
	})
}

func TestDrainedShardsReturnToAnAppThatRestarted(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]func(w *world, c *cachingApps, id string){
		"its port refused": func(_ *world, c *cachingApps, id string) {
			c.down.set(id, true)
			time.Sleep(time.Second)
			c.instance.set(id, id+" 2")
			c.down.set(id, false)
		},
		"its instance changed": func(w *world, c *cachingApps, id string) { c.instance.set(id, id+" 2") },
		"an operator says so": func(w *world, c *cachingApps, id string) {
			w.asks(w.leader(), api.Action{Verb: api.AppRestarted, Node: id})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCachingWorld(t, func(w *world, c *cachingApps, victim *process) {
				id := shardmap.NodeID(victim.name)
				was := w.owned(victim.name)
				w.drainedAndBack(victim.name, func() {
					time.Sleep(2 * time.Second) // health checks see the old instance
					restart(w, c, victim.name)
					w.until("the log knows of the restart", func() bool { return !w.leader().node.State().IsBarred(id, was[0]) })
				})
				if n := both(was, w.owned(victim.name)); n != len(was) {
					t.Errorf("%d of %d shards returned to the app that restarted", n, len(was))
				}
			})
		})
	}
}

// An app with an instance id has not restarted if the id is unchanged: it has only closed its port for a while.
func TestDrainedShardsDoNotReturnToAnAppThatClosedItsPort(t *testing.T) {
	inCachingWorld(t, func(w *world, c *cachingApps, victim *process) {
		was := w.owned(victim.name)
		w.drainedAndBack(victim.name, func() {
			c.down.set(victim.name, true)
			time.Sleep(5 * time.Second)
			c.down.set(victim.name, false)
			time.Sleep(5 * time.Second)
		})
		if n := both(was, w.owned(victim.name)); n != 0 {
			t.Errorf("%d shards went back to the app that had them", n)
		}
	})
}

// A node that was stopped or killed returns to the app that kept running. The data directory shows whether it is the same instance.
func TestShardsDoNotReturnToAnAppThatRanOnAfterItsNode(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"stopped", "killed"} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, app restarted %v", end, restarted), func(t *testing.T) {
				inCachingWorld(t, func(w *world, c *cachingApps, victim *process) {
					was := w.owned(victim.name)
					if end == "stopped" {
						victim.terminate()
					} else {
						victim.kill()
					}
					id := shardmap.NodeID(victim.name)
					w.until("its shards are elsewhere", func() bool { return w.committed().ShardCount(id) == 0 })
					if restarted {
						c.instance.set(victim.name, c.instance.get(victim.name)+" and again")
					}
					victim.restart()
					w.until("it owns shards again", func() bool { return w.committed().ShardCount(id) == shards/3 })
					want := 0
					if restarted {
						want = len(was)
					}
					if n := both(was, w.owned(victim.name)); n != want {
						t.Errorf("%d of %d shards returned, want %d", n, len(was), want)
					}
				})
			})
		}
	}
}

func TestShardsDoNotReturnToAnAppThatHung(t *testing.T) {
	inCachingWorld(t, func(w *world, c *cachingApps, victim *process) {
		was, id := w.owned(victim.name), shardmap.NodeID(victim.name)
		c.hung.set(victim.name, true)
		w.until("its shards are elsewhere", func() bool { return w.committed().ShardCount(id) == 0 })
		c.hung.set(victim.name, false)
		w.until("it owns shards again", func() bool { return w.committed().ShardCount(id) == shards/3 })
		if n := both(was, w.owned(victim.name)); n != 0 {
			t.Errorf("%d shards went back to an app that only hung", n)
		}
		was = w.owned(victim.name)
		c.down.set(victim.name, true)
		w.until("its shards are elsewhere again", func() bool { return w.committed().ShardCount(id) == 0 })
		c.instance.set(victim.name, "after the crash")
		c.down.set(victim.name, false)
		w.until("it owns shards after its crash", func() bool { return w.committed().ShardCount(id) == shards/3 })
		if n := both(was, w.owned(victim.name)); n != len(was) {
			t.Errorf("%d of %d shards returned to an app that crashed", n, len(was))
		}
	})
}

// The last remaining node gets all shards, and every node reports that until its app restarts. A node that returns then gets none of its
// earlier shards.
func TestLastNodeGetsShardsBackAndReportsIt(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		c := newCachingApps(w)
		tune := w.tune
		w.tune = func(o *node.Options) { tune(o); o.BootstrapExpect = 2 } // neither app has ever had the shards of the other
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		w.untilVoters(2)
		force := func(verb api.Verb, id string) { w.asks(w.leader(), api.Action{Verb: verb, Node: id, Force: true}) }
		force(api.Drain, "a")
		w.until("b owns all", func() bool { return w.committed().ShardCount("b") == shards })
		force(api.Uncordon, "a")
		w.until("the spread is as even as it may be", func() bool { return w.committed().ShardCount("a") == shards/2 })
		force(api.Drain, "b")
		w.until("a owns all", func() bool { return w.committed().ShardCount("a") == shards })
		stale := w.leader().node.State().StaleReturns("a")
		if stale != shards/2 {
			t.Errorf("%d shards returned to the app of a, want the half that it had before", stale)
		}
		for _, p := range w.running() {
			marked := 0
			for _, sh := range p.node.API().Shards().Shards {
				if sh.StaleReturn {
					marked++
				}
			}
			if marked != stale {
				t.Errorf("node %s marks %d shards, want %d", p.name, marked, stale)
			}
			w.untilFindingsAre(p, "stale-return: 48 shards returned to the app of node a, which had them before and has not restarted", "shardway app-restarted a")
		}
		force(api.Uncordon, "b")
		time.Sleep(10 * time.Second)
		if n := w.committed().ShardCount("b"); n != 0 {
			t.Errorf("b owns %d shards, its app has had all of them", n)
		}
		plan, err := w.leader().node.API().Plan(w.t.Context())
		if err != nil || len(plan.Moves) != 0 || len(plan.HeldBack) != 1 || plan.HeldBack[0] != (api.HeldBackNode{Node: "b", Shards: shards / 2}) {
			t.Errorf("plan %+v, %v, want that b is held back from %d shards", plan, err, shards/2)
		}
		c.down.set("a", true) // its app crashes: all shards go to b, which must take them
		w.until("b owns all once more", func() bool { return w.committed().ShardCount("b") == shards })
		c.down.set("a", false)
		w.until("a, whose app has restarted, has its share", func() bool { return w.committed().ShardCount("a") == shards/2 })
		if n := w.leader().node.State().StaleReturns("a"); n != 0 {
			t.Errorf("%d stale returns at a, whose app has restarted", n)
		}
	})
}

// A restart in place leaves all shards where they are, and bars none.
func TestRestartInPlaceBarsNothing(t *testing.T) {
	inCachingWorld(t, func(w *world, c *cachingApps, victim *process) {
		tune := w.tune
		w.tune = func(o *node.Options) { tune(o); o.HoldGrace = 8 * time.Second }
		victim.kill()
		victim.restart() // with the option set
		w.untilSettled("a", "b", "c")
		w.until("all have a share", func() bool { return w.committed().ShardCount(shardmap.NodeID(victim.name)) == shards/3 })
		was := w.owned(victim.name)
		victim.terminate()
		victim.restart()
		w.untilSettled("a", "b", "c")
		if n := both(was, w.owned(victim.name)); n != len(was) {
			t.Errorf("%d of %d shards are still there", n, len(was))
		}
		for _, s := range was {
			if w.leader().node.State().IsBarred(shardmap.NodeID(victim.name), s) {
				t.Fatalf("shard %d is barred from the node that kept it", s)
			}
		}
	})
}

// Without the option, nothing is recorded, so shards may return.
func TestShardsReturnAtAnyTime(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		for _, n := range []string{"a", "b", "c"} {
			w.start(n)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		victim := w.follower()
		was := w.owned(victim.name)
		w.drainedAndBack(victim.name, func() {})
		if n := both(was, w.owned(victim.name)); n != len(was) || w.leader().node.State().ReturnsNeedRestart(shardmap.NodeID(victim.name)) {
			t.Errorf("%d of %d shards returned", n, len(was))
		}
	})
}
