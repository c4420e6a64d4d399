package node_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/admin/api"
	"shardway/shardmap"
)

// held counts the shards that a node lists, by state.
func (w *world) held(name string) (states map[string]int, list api.OwnedList) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	list, err := w.all[name].node.API().Held(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	states = map[string]int{}
	for _, s := range list.Shards {
		states[s.State]++
		if epoch, ok := w.all[name].node.Admits(shardmap.Shard(s.Shard)); ok != (s.State == api.OwnedServing) || ok && epoch != s.Epoch {
			w.t.Errorf("%s says of shard %d: %s of epoch %d, and admits %v of %d", name, s.Shard, s.State, s.Epoch, ok, epoch)
		}
		if since := time.Since(s.Since); since < -time.Millisecond || since > time.Hour {
			w.t.Errorf("%s has shard %d since %v, now is %v", name, s.Shard, s.Since, time.Now())
		}
	}
	return states, list
}

// A node lists exactly the shards for which it admits requests, with and without hooks.
func TestNodeListsExactlyTheShardsItAdmits(t *testing.T) {
	for _, hooked := range []bool{false, true} {
		bubble(t, func(w *world) {
			if hooked {
				w.hooked(newLedger(), nil)
			}
			w.start("a")
			w.start("b")
			w.untilSettled("a", "b")
			w.until("every shard is served", w.allServed)
			for _, name := range []string{"a", "b"} {
				if states, list := w.held(name); states["serving"] != shards/2 || len(states) != 1 || list.Node != name || list.Epoch == 0 || list.LeaseMS == 0 {
					w.t.Errorf("hooks %v: %s has %v: %+v", hooked, name, states, list)
				}
			}
			w.all["b"].stop()
			<-w.all["b"].done
			if list, err := w.all["b"].node.API().Held(w.t.Context()); err == nil {
				w.t.Errorf("a node that has stopped has %v", list)
			}
		})
	}
}

// A shard that the app cannot acquire is listed with the reason.
func TestHeldReportsWhyAShardIsNotServed(t *testing.T) {
	bubble(t, func(w *world) {
		var well atomic.Bool
		w.hooked(newLedger(), func(string) func(context.Context, agent.HookCall) error {
			return func(_ context.Context, c agent.HookCall) error {
				if c.Kind == agent.HookAcquire && !well.Load() {
					return errors.New("disk full")
				}
				return nil
			}
		})
		w.start("a")
		w.untilSettled("a")
		w.until("an acquire has failed", func() bool {
			_, list := w.held("a")
			return len(list.Shards) == shards && list.Shards[shards-1].Error != ""
		})
		if states, list := w.held("a"); states["acquiring"] != shards || list.Shards[0].Error != "disk full" {
			w.t.Errorf("%v: %+v", states, list.Shards[0])
		}
		w.untilFindingsAre(w.all["a"], "acquiring: the app of node a does not acquire 96 shards: 0, 1, ", "disk full")
		well.Store(true)
		w.until("every shard is served", w.allServed)
		if states, list := w.held("a"); states["serving"] != shards || list.Shards[0].Error != "" {
			w.t.Errorf("%v: %+v", states, list.Shards[0])
		}
		w.untilFindingsAre(w.all["a"])
	})
}
