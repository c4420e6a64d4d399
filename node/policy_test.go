package node_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

// asks makes a node process an action, and repeats it while the leader was just elected.
func (w *world) asks(p *process, a api.Action) {
	w.t.Helper()
	w.until(a.Verb.String()+" is carried out", func() bool {
		err := p.node.API().Do(w.t.Context(), a)
		if err != nil && !errors.Is(err, api.ErrRefused) && !errors.Is(err, api.ErrNoLeader) {
			w.t.Fatalf("Do(%+v) = %v", a, err)
		}
		return err == nil
	})
}

// refused sends an action that must be refused, and checks the error.
func (w *world) refused(p *process, a api.Action, fault error, why string) {
	w.t.Helper()
	if err := p.node.API().Do(w.t.Context(), a); !errors.Is(err, fault) || !strings.Contains(err.Error(), why) {
		w.t.Errorf("Do(%+v) = %v, want %v because %q", a, err, fault, why)
	}
}

func (w *world) stateOf(p *process, node string) string {
	for _, n := range p.node.API().Status().Nodes {
		if n.ID == node {
			return n.State
		}
	}
	return ""
}

// A drained node owns nothing, is ready and votes. The leader is drained first: it hands over leadership before.
func TestDrainedNodeOwnsNothingAndIsReady(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{false, true} {
		three(t, func(w *world) {
			w.untilVoters(3)
			p := w.voter(leads)
			rest := w.others(p)
			// One request is enough: the next leader has received no heartbeats yet, and takes no node for dead.
			if err := w.follower().node.API().Do(w.t.Context(), api.Action{Verb: api.Drain, Node: p.name}); err != nil {
				w.t.Fatalf("drain %s (leads: %v): %v", p.name, leads, err)
			}
			w.untilSettled(rest...)
			if p.node.Leads() {
				w.t.Errorf("%s is drained and leads", p.name)
			}
			for range 400 {
				w.moment()
			}
			w.untilVoters(3)
			if err := p.node.API().Ready(); err != nil || !p.node.Leased() {
				w.t.Errorf("drained: ready: %v, lease: %v", err, p.node.Leased())
			}
			if s := p.node.API().Status(); s.State != "drained" || s.Shards.Owned != 0 || w.stateOf(w.leader(), p.name) != "drained" {
				w.t.Errorf("drained: state %q, owns %d, the leader says %q", s.State, s.Shards.Owned, w.stateOf(w.leader(), p.name))
			}
			w.untilFindingsAre(p, "draining: "+p.name+" is drained, and owns nothing")
			if s := p.node.State(); s.IsDropped(shardmap.NodeID(p.name)) {
				w.t.Error("drained, and dropped")
			}
			w.asks(w.leader(), api.Action{Verb: api.Uncordon, Node: p.name})
			w.untilSettled("a", "b", "c")
			w.until("it owns shards again", func() bool { return w.committed().ShardCount(shardmap.NodeID(p.name)) == shards/3 })
		})
	}
}

// With one of three nodes drained, a drain of a second one is refused: once both stop, the remaining node could elect no leader.
func TestDrainThatEndangersQuorumIsRefused(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		w.asks(w.follower(), api.Action{Verb: api.Drain, Node: "c"})
		w.untilSettled("a", "b")
		w.refused(w.follower(), api.Action{Verb: api.Drain, Node: "b"}, api.ErrRefused, `without node "b", 1 of 3 voters remain and 2 are required (c is drained)`)
		w.asks(w.follower(), api.Action{Verb: api.Drain, Node: "c"}) // a repeated drain is not another one
		w.asks(w.follower(), api.Action{Verb: api.Drain, Node: "b", Force: true})
		w.untilSettled("a")
		// The node is drained already and its risk was confirmed, so a repeated drain needs no force.
		if err := w.follower().node.API().Do(w.t.Context(), api.Action{Verb: api.Drain, Node: "b"}); err != nil {
			w.t.Errorf("drained once more: %v", err)
		}
		w.refused(w.follower(), api.Action{Verb: api.Drain, Node: "a"}, api.ErrRefused, "without node \"a\", 0 of 3 voters remain")
		// With force the drain is accepted. No node is left to own shards, so the map stays.
		w.asks(w.follower(), api.Action{Verb: api.Drain, Node: "a", Force: true})
		for range 200 {
			w.moment()
		}
		w.until("the map stays", func() bool { return w.committed().ShardCount("a") == shards })
	})
}

// Each of two concurrent drains would leave a quorum that includes the other node, so one is refused.
func TestOfTwoDrainsAtOnceOneIsRefused(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		l := w.leader()
		done := make(chan error)
		for _, name := range w.others(l) {
			go func() { done <- l.node.API().Do(w.t.Context(), api.Action{Verb: api.Drain, Node: name}) }()
		}
		first, second := <-done, <-done
		if (first == nil) == (second == nil) {
			w.t.Errorf("both at once: %v; %v: want that one is refused", first, second)
		}
		for _, err := range []error{first, second} {
			if err != nil && (!errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), "is drained")) {
				w.t.Errorf("refused with %v", err)
			}
		}
		if n := len(l.node.API().Policy().Drained); n != 1 {
			w.t.Errorf("%d are drained, want 1", n)
		}
	})
}

// With two voters, the loss of either stops the cluster, so neither can be drained.
func TestOneOfTwoVotersIsNotDrained(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		w.untilVoters(2)
		w.refused(w.follower(), api.Action{Verb: api.Drain, Node: "b"}, api.ErrRefused, "1 of 2 voters remain and 2 are required")
	})
}

// A voter without heartbeats counts as dead.
func TestDrainCountsNodesWithHeartbeats(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		w.all["c"].kill()
		w.untilSettled("a", "b")
		w.refused(w.leader(), api.Action{Verb: api.Drain, Node: w.follower().name}, api.ErrRefused, "1 of 3 voters remain and 2 are required (c sends no heartbeats)")
	})
}

func TestCordonWeightPinAndPause(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			o.Zone = map[string]string{"a": "east", "b": "west", "c": "west"}[o.Dir.Node()]
		}
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		w.asks(w.follower(), api.Action{Verb: api.Pause, For: "1h"})
		w.start("c")
		w.untilSettled("a", "b", "c")
		if n := w.committed().ShardCount("c"); n != 0 {
			w.t.Errorf("paused: the newcomer owns %d shards", n)
		}
		w.asks(w.follower(), api.Action{Verb: api.Cordon, Node: "c"})
		w.asks(w.follower(), api.Action{Verb: api.Resume})
		for range 400 {
			w.moment()
		}
		if n := w.committed().ShardCount("c"); n != 0 || w.stateOf(w.leader(), "c") != "cordoned" {
			w.t.Errorf("cordoned: the newcomer owns %d shards, state %q", n, w.stateOf(w.leader(), "c"))
		}
		w.asks(w.follower(), api.Action{Verb: api.Uncordon, Node: "c"})
		w.until("c has its share", func() bool { return w.committed().ShardCount("c") == shards/3 })
		w.asks(w.follower(), api.Action{Verb: api.Weigh, Node: "c", Weight: 2})
		w.until("c has half", func() bool { return w.committed().ShardCount("c") == shards/2 })
		weight := func(want uint32) func() bool {
			return func() bool {
				all := w.follower().node.API().Status().Nodes
				i := slices.IndexFunc(all, func(x api.Node) bool { return x.ID == "c" })
				return i >= 0 && all[i].Weight == want
			}
		}
		w.until("c is shown with the weight that counts", weight(2))
		w.asks(w.follower(), api.Action{Verb: api.Weigh, Node: "c"})
		w.until("c is shown with its own weight", weight(1))
		w.asks(w.follower(), api.Action{Verb: api.Pin, Shard: 7, Node: "a", Reason: "cache"})
		w.asks(w.follower(), api.Action{Verb: api.Pin, Shard: 8, Zone: "west"})
		at := func(s shardmap.Shard) shardmap.NodeID { return w.committed().Owner(s) }
		hasReason := func(p *process) bool {
			reasons := p.node.API().Policy().Reasons
			return len(reasons) == 1 && reasons[0].Action == "pin" && *reasons[0].Shard == 7 && reasons[0].Reason == "cache"
		}
		w.until("the policy of each node has the reason", func() bool { return hasReason(w.all["a"]) && hasReason(w.all["b"]) && hasReason(w.all["c"]) })
		w.until("the pins hold", func() bool {
			return at(7) == "a" && (at(8) == "b" || at(8) == "c") && w.committed().ShardCount("c") == shards/3
		})
		w.asks(w.follower(), api.Action{Verb: api.Pin, Shard: 7, Zone: "west"})
		w.asks(w.follower(), api.Action{Verb: api.Pin, Shard: 8, Zone: "east"})
		w.until("the pins hold", func() bool { return at(7) != "a" && at(8) == "a" })
		w.asks(w.follower(), api.Action{Verb: api.Unpin, Shard: 8})
		p := w.leader().node.API().Policy()
		if len(p.Pins) != 1 || !reflect.DeepEqual(p.Pins[0], api.PinnedShard{Shard: 7, Zone: "west"}) || len(p.Weights)+len(p.Cordoned)+len(p.Drained) != 0 || p.Pause != "" {
			w.t.Errorf("policy %+v", p)
		}
		w.refused(w.leader(), api.Action{Verb: api.Pin, Shard: 1, Node: "a", Fallbacks: []string{"b", "d"}}, api.ErrUnknownNode, `"d"`)
		w.asks(w.follower(), api.Action{Verb: api.Pin, Shard: 8, Node: "c", Fallbacks: []string{"b", "a"}})
		w.until("the pin holds", func() bool { return at(8) == "c" })
		w.asks(w.follower(), api.Action{Verb: api.Cordon, Node: "c"})
		w.asks(w.follower(), api.Action{Verb: api.Drain, Node: "c", Force: true})
		w.until("the next node of the pin owns the shard", func() bool { return at(8) == "b" })
		w.asks(w.follower(), api.Action{Verb: api.Uncordon, Node: "c"})
		w.until("the shard is back", func() bool { return at(8) == "c" })
		w.refused(w.leader(), api.Action{Verb: api.Cordon, Node: "d"}, api.ErrUnknownNode, `"d"`)
		w.refused(w.leader(), api.Action{Verb: api.Pin, Shard: 1, Zone: "north"}, api.ErrRefused, `no node is in zone "north"`)
	})
}

// The pause ends automatically, measured by the current leader.
func TestPauseEndsByItself(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.asks(w.leader(), api.Action{Verb: api.Pause, For: "20s"})
		began := time.Now()
		w.within(25*time.Second, "the pause is over", func() bool { return w.leader() != nil && w.leader().node.API().Policy().Pause == "" })
		if took := time.Since(began); took < 20*time.Second {
			w.t.Errorf("over after %v, want 20s", took)
		}
	})
}

// A new node may have the name of a removed one.
func TestRemoveForgetsWhatWasAsked(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 0, 4)
		p := w.voter(false)
		w.asks(w.leader(), api.Action{Verb: api.Weigh, Node: p.name, Weight: 3})
		w.asks(w.leader(), api.Action{Verb: api.Drain, Node: p.name})
		p.kill()
		w.untilSettled(w.others(p)...)
		w.asks(w.leader(), api.Action{Verb: api.Remove, Node: p.name, Force: true})
		w.until("nothing is asked of it", func() bool {
			got := w.leader().node.API().Policy()
			return len(got.Drained) == 0 && len(got.Weights) == 0
		})
		if _, known := w.leader().node.Known().Drop(shardmap.NodeID(p.name)); known {
			w.t.Error("it is known why the removed node was dropped")
		}
	})
}

// Once, the leader did not validate actions that a node forwarded. A log entry that cannot be read would stop every node for good.
func TestActionsWithoutEffectHarmNoNode(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		for _, a := range []api.Action{
			{Verb: api.Drain, Force: true},
			{Verb: api.Cordon},
			{Verb: api.MarkFailed},
			{Verb: api.AddService},
			{Verb: api.Uncordon},
			{Verb: api.Weigh, Weight: 1},
			{Verb: api.Weigh, Node: "b", Weight: 1 << 30},
			{Verb: api.Pin, Shard: 1},
			{Verb: api.Pin, Shard: 1 << 20, Node: "b"},
			{Verb: api.Unpin, Shard: 1 << 20},
		} {
			w.refused(w.follower(), a, api.ErrInvalid, "no change of the policy")
		}
		// The error for a duration out of its bounds names the duration.
		for _, text := range []string{"soon", "0s", "-1s", "10000h"} {
			w.refused(w.follower(), api.Action{Verb: api.Pause, For: text}, api.ErrInvalid, `for = "`+text+`" is not a duration of at most`)
			w.refused(w.follower(), api.Action{Verb: api.Drain, Node: "b", IdleFirst: text}, api.ErrInvalid, `idle_first = "`+text+`" is not a duration of at most`)
			w.refused(w.follower(), api.Action{Verb: api.Quarantine, Hash: "1", For: text}, api.ErrInvalid, `for = "`+text+`" is not a duration of at most`)
		}
		w.refused(w.follower(), api.Action{Verb: api.Quarantine, Hash: "key"}, api.ErrInvalid, `key_hash = "key" is not a key hash`)
		w.refused(w.follower(), api.Action{Verb: api.AddService, Service: "chat", Shards: 1 << 20}, api.ErrRefused, "at most 65536 shards in all")
		w.refused(w.leader(), api.Action{Verb: math.MaxUint8, Node: "b"}, api.ErrRefused, "unknown action")
		w.refused(w.leader(), api.Action{Verb: api.Remove, Node: w.leader().name}, api.ErrRefused, "leads; `shardway step-down` first")
		w.asks(w.follower(), api.Action{Verb: api.Cordon, Node: "b"})
		w.untilSettled("a", "b", "c")
	})
}
