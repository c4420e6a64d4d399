package node_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
	"shardway/node/apphealth"
	"shardway/shardmap"
)

// instanceHealth is the state of the app instances of one node.
type instanceHealth struct {
	refuses, hangs [3]atomic.Bool
}

// check returns the health check of an instance.
func (h *instanceHealth) check(instance int) func(context.Context) error {
	return func(ctx context.Context) error {
		switch {
		case h.refuses[instance].Load():
			return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		case h.hangs[instance].Load():
			<-ctx.Done()
			return errors.New("no response")
		}
		return nil
	}
}

// withInstances gives each node three app instances, whose health the test controls.
func withInstances(w *world) map[string]*instanceHealth {
	health := map[string]*instanceHealth{"a": {}, "b": {}, "c": {}}
	next := []string{"a", "b", "c"}
	w.tune = func(o *node.Options) {
		if len(next) == 0 {
			w.t.Fatal("a fourth node")
		}
		own := health[next[0]]
		next = next[1:]
		o.Health = apphealth.Settings{Interval: 500 * time.Millisecond, Timeout: time.Second, Fall: 3, Rise: 1}
		o.CheckApp = own.check(0)
		for i := 1; i < 3; i++ {
			o.FurtherInstances = append(o.FurtherInstances, node.AppInstance{Check: own.check(i)})
			o.Proxy.FurtherUpstreams = append(o.Proxy.FurtherUpstreams, o.Proxy.DialUpstream)
		}
	}
	return health
}

// startInstances starts three nodes of three instances.
func startInstances(w *world) map[string]*instanceHealth {
	health := withInstances(w)
	w.start("a")
	w.start("b")
	w.start("c")
	w.untilSettled("a", "b", "c")
	w.until("all instances own shards", func() bool {
		m := w.committed()
		for _, id := range []shardmap.NodeID{"a", "b", "c"} {
			for instance := range shardmap.Instance(3) {
				if m.InstanceCount(id, instance) == 0 {
					return false
				}
			}
		}
		return true
	})
	return health
}

func TestInstanceThatEndsLosesItsShardsToItsSiblings(t *testing.T) {
	for _, kind := range []string{"refuses", "hangs"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(w *world) {
				health := startInstances(w)
				before := w.committed()
				failed := &health["b"].refuses[1]
				if kind == "hangs" {
					failed = &health["b"].hangs[1]
				}
				failed.Store(true)
				w.until("the shards have moved", func() bool { return w.committed().InstanceCount("b", 1) == 0 })
				w.untilSettled("a", "b", "c")
				after := w.committed()
				for _, move := range shardmap.Diff(before, after) {
					if move.From != "b" || move.FromInstance != 1 || move.To != "b" {
						w.t.Errorf("another shard moved: %+v", move)
					}
					if after.OwnedSince(move.Shard) <= before.OwnedSince(move.Shard) {
						w.t.Errorf("shard %d has no other ownership epoch", move.Shard)
					}
				}
				failed.Store(false)
				w.until("the instance has shards again", func() bool { return w.committed().InstanceCount("b", 1) > 0 })
				w.untilSettled("a", "b", "c")
				for _, move := range shardmap.Diff(after, w.committed()) {
					if move.To != "b" || move.ToInstance != 1 {
						w.t.Errorf("another instance got a shard: %+v", move)
					}
				}
			})
		})
	}
}

func TestNodeWithoutHealthyInstancesLosesItsShards(t *testing.T) {
	bubble(t, func(w *world) {
		health := startInstances(w)
		for i := range health["c"].refuses {
			health["c"].refuses[i].Store(true)
		}
		w.until("c owns nothing", func() bool { return w.committed().ShardCount("c") == 0 })
		health["c"].refuses[2].Store(false)
		w.until("c owns shards again", func() bool { return w.committed().InstanceCount("c", 2) > 0 })
		if m := w.committed(); m.InstanceCount("c", 0)+m.InstanceCount("c", 1) > 0 {
			w.t.Error("an instance that refuses connections owns shards")
		}
	})
}

func TestDrainOfAnInstanceMovesItsShardsToItsSiblings(t *testing.T) {
	bubble(t, func(w *world) {
		startInstances(w)
		before := w.committed()
		do := func(action api.Action) error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return w.running()[0].node.API().Do(ctx, action)
		}
		for _, refused := range []struct {
			action api.Action
			want   string
		}{
			{api.Action{Verb: api.Drain, Node: "b/4"}, "instances 1 to 3"},
			{api.Action{Verb: api.Drain, Node: "x/1"}, "unknown node"},
			{api.Action{Verb: api.Drain, Node: "b/2", Safe: true}, "no options"},
			{api.Action{Verb: api.Cordon, Node: "b/2"}, "name the node"},
		} {
			if err := do(refused.action); err == nil || !strings.Contains(err.Error(), refused.want) {
				w.t.Errorf("%+v: %v, want %q", refused.action, err, refused.want)
			}
		}
		if err := do(api.Action{Verb: api.Drain, Node: "b/2"}); err != nil {
			w.t.Fatal(err)
		}
		w.until("b/2 owns nothing", func() bool { return w.committed().InstanceCount("b", 1) == 0 })
		w.untilSettled("a", "b", "c")
		for _, move := range shardmap.Diff(before, w.committed()) {
			if move.From != "b" || move.FromInstance != 1 || move.To != "b" {
				w.t.Errorf("another shard moved: %+v", move)
			}
		}
		for _, listed := range w.running()[0].node.API().Status().Nodes {
			if listed.ID == "b" && (len(listed.Instances) != 3 || listed.Instances[1].State != "drained" || listed.Instances[0].State != "active") {
				w.t.Errorf("instances of b: %+v", listed.Instances)
			}
		}
		if err := do(api.Action{Verb: api.Drain, Node: "b/1"}); err != nil {
			w.t.Fatal(err)
		}
		if err := do(api.Action{Verb: api.Drain, Node: "b/3"}); err == nil || !strings.Contains(err.Error(), "--force") {
			w.t.Errorf("the last instance: %v", err)
		}
		w.until("b/1 owns nothing", func() bool { return w.committed().InstanceCount("b", 0) == 0 })
		for _, name := range []string{"b/1", "b/2"} {
			if err := do(api.Action{Verb: api.Uncordon, Node: name}); err != nil {
				w.t.Fatal(err)
			}
		}
		w.until("all instances own shards", func() bool {
			m := w.committed()
			return m.InstanceCount("b", 0) > 0 && m.InstanceCount("b", 1) > 0
		})
	})
}
