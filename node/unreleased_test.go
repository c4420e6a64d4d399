package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/admin/api"
	"shardway/event"
	"shardway/shardmap"
)

// releasesBadly starts three nodes. The app of node c fails each release while bad is true.
func (w *world) releasesBadly(bad *bool, err error) {
	w.hooked(newLedger(), func(name string) func(context.Context, agent.HookCall) error {
		return func(ctx context.Context, c agent.HookCall) error {
			if name != "c" || !*bad || c.Kind != agent.HookRelease {
				return nil
			}
			if err == nil { // no response
				<-ctx.Done()
				return ctx.Err()
			}
			return err
		}
	})
	for _, name := range []string{"a", "b", "c"} {
		w.start(name)
	}
	w.untilSettled("a", "b", "c")
	w.until("every shard is served", w.allServed)
}

// A release fails in a drain. Every node reports it, the node concerned counts it and has an
// event, and the state of the drain has the number of shards and the reason. Ten minutes
// later the finding is gone.
func TestFailedReleaseIsReportedByEveryNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result  string
		failure error
	}{{"failed", errors.New("disk full")}, {"late", nil}}[:share(2, 1)] {
		result, failure := c.result, c.failure
		bubble(t, func(w *world) {
			bad := false
			w.releasesBadly(&bad, failure)
			p := w.all["c"]
			owned := w.committed().ShardCount("c")
			bad = true
			w.asks(p, api.Action{Verb: api.Drain, Node: "c", Force: true})
			w.until("c owns nothing", func() bool { return w.committed().ShardCount("c") == 0 })
			text := unreleasedText(owned)
			for _, q := range w.running() {
				w.untilFindingsAre(q, text, "check the app for lost writes")
			}
			for _, q := range w.running() {
				d, err := q.node.API().DrainState(w.t.Context(), "c")
				if err != nil || d.Unreleased != owned || d.UnreleasedWhy == "" || failure != nil && !strings.Contains(d.UnreleasedWhy, failure.Error()) {
					w.t.Errorf("%s: %+v, %v, want %d shards unreleased and why", q.name, d, err, owned)
				}
			}
			if got := value(p.gathered(), "shardway_releases_total", result); got != float64(owned) {
				w.t.Errorf("releases %s = %v, want %d", result, got, owned)
			}
			// The event follows the finding after a short time, in which further failures are collected.
			var events []event.Event
			w.until("c has the event", func() bool {
				_, all := p.events(0)
				events = slices.DeleteFunc(all, func(e event.Event) bool { return e.Kind != event.NotReleased })
				return len(events) > 0
			})
			if len(events) != 1 || events[0].Node != "c" || events[0].Reason == "" || events[0].Unreleased.Count != owned || len(events[0].Unreleased.Shards) != min(owned, 32) {
				w.t.Errorf("events %+v, want one of %d shards", events, owned)
			}
			bad = false
			time.Sleep(agent.UnreleasedMoveWindow + time.Minute)
			for _, q := range w.running() {
				w.untilFindingsAre(q)
			}
			// A further drain counts only its own moves.
			w.asks(p, api.Action{Verb: api.Uncordon, Node: "c"})
			w.untilSettled("a", "b", "c")
			w.until("every shard is served", w.allServed)
			w.asks(p, api.Action{Verb: api.Drain, Node: "c", Force: true})
			w.until("c owns nothing", func() bool { return w.committed().ShardCount("c") == 0 })
			if d, err := w.all["a"].node.API().DrainState(w.t.Context(), "c"); err != nil || d.Unreleased != 0 || d.UnreleasedWhy != "" {
				w.t.Errorf("%+v, %v, want nothing unreleased", d, err)
			}
			if got := value(p.gathered(), "shardway_releases_total", "ok"); got < float64(owned) {
				w.t.Errorf("releases ok = %v, want at least %d", got, owned)
			}
		})
	}
}

func unreleasedText(n int) string {
	return fmt.Sprintf("not-released: %d shards moved within the last 10 minutes although the app of node c had not released them", n)
}

// A node that stops with a failed release is reported by the other nodes until it is back.
func TestFailedReleaseOfNodeThatStopsIsReportedByOthers(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		bad := false
		w.releasesBadly(&bad, errors.New("disk full"))
		bad = true
		owned := w.committed().ShardCount(shardmap.NodeID("c"))
		w.all["c"].terminate()
		w.untilSettled("a", "b")
		for _, p := range w.running() {
			w.untilFindingsAre(p, "not-released: ", unreleasedText(owned))
		}
	})
}

// A safe drain leaves shards that the app does not release at the node, which serves them, and the drain state has the reason. When the app
// releases again, a repeated drain moves them.
func TestSafeDrainLeavesUnreleasedShards(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{errors.New("disk full"), nil}[:share(2, 1)] {
		bubble(t, func(w *world) {
			bad := false
			w.releasesBadly(&bad, failure)
			owned := w.committed().ShardCount("c")
			bad = true
			w.asks(w.all["c"], api.Action{Verb: api.Drain, Node: "c", Force: true, Safe: true, ReleaseTimeout: "2s"})
			w.until("the drain has a reason why shards stay", func() bool {
				d, err := w.all["a"].node.API().DrainState(w.t.Context(), "c")
				return err == nil && d.Shards == owned && d.Unreleased == 0 && strings.Contains(d.BlockedBy, "the app has not released them")
			})
			w.untilFindingsAre(w.all["c"], "draining: the safe drain leaves ", "at node c, because its app has not released them: ")
			w.until("every shard is served", w.allServed)
			time.Sleep(time.Duration(share(5, 1)) * time.Minute)
			if n := w.committed().ShardCount("c"); n != owned || !w.allServed() {
				w.t.Errorf("c owns %d shards, want %d served", n, owned)
			}
			if d, ok := w.all["a"].node.State().Drop("c"); ok {
				w.t.Errorf("c was dropped: %s", d.Cause)
			}
			bad = false
			w.asks(w.all["c"], api.Action{Verb: api.Drain, Node: "c", Force: true, Safe: true})
			w.until("c owns nothing", func() bool { return w.committed().ShardCount("c") == 0 })
			w.until("every shard is served", w.allServed)
			if d, err := w.all["a"].node.API().DrainState(w.t.Context(), "c"); err != nil || d.Left() || d.Unreleased != 0 {
				w.t.Errorf("%+v, %v, want nothing left and nothing unreleased", d, err)
			}
		})
	}
}

// A stopping node has no time for a safe drain: its shards move unreleased, and that is reported.
func TestStopEndsSafeDrain(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		bad := false
		w.releasesBadly(&bad, errors.New("disk full"))
		bad = true
		w.asks(w.all["c"], api.Action{Verb: api.Drain, Node: "c", Force: true, Safe: true})
		w.until("the drain leaves shards", func() bool { return w.all["c"].node.API().SelfState().BlockedBy != "" })
		w.all["c"].terminate()
		w.until("c owns nothing", func() bool { return w.committed().ShardCount("c") == 0 })
		w.until("every shard is served", w.allServed)
	})
}
