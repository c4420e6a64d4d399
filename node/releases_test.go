package node_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/node"
	"shardway/shardmap"
)

// carrier is an app whose only state is in its memory and in the notes that it leaves: how often each shard was released.
type carrier struct {
	ledger
	counts   map[shardmap.Shard]int
	released int // acquires that arrived with a release
}

// of returns the app of one node.
func (c *carrier) of() doFunc {
	return func(_ context.Context, call agent.HookCall) agent.HookResult {
		c.mu.Lock()
		defer c.mu.Unlock()
		r := agent.HookResult{Notes: map[shardmap.Shard][]byte{}, Failed: map[shardmap.Shard]string{}}
		for _, s := range call.Shards {
			c.told[call.Kind]++
			switch call.Kind {
			case agent.HookRelease:
				c.counts[s.Shard]++
				r.Notes[s.Shard] = fmt.Appendf(nil, "%d", c.counts[s.Shard])
			case agent.HookAcquire:
				if s.Released {
					c.released++
				}
				if want := strconv.Itoa(c.counts[s.Shard]); s.Released && string(s.Note) != want {
					c.wrong = append(c.wrong, fmt.Errorf("shard %d comes with note %q, it was released with %q", s.Shard, s.Note, want))
				}
			case agent.HookLost:
			}
		}
		return r
	}
}

type doFunc func(context.Context, agent.HookCall) agent.HookResult

func (f doFunc) Do(ctx context.Context, c agent.HookCall) agent.HookResult { return f(ctx, c) }

// carried gives every node an app that carries its state in notes.
func (w *world) carried() *carrier {
	c := &carrier{ledger: ledger{held: map[shardmap.Shard]string{}, told: map[agent.HookKind]int{}}, counts: map[shardmap.Shard]int{}}
	w.tune = func(o *node.Options) {
		o.Hooks, o.ReleaseTimeout, o.AcquireTimeout = c.of(), 4*time.Second, time.Minute
	}
	return c
}

func (c *carrier) figures() (released, acquires, asReleased int, wrong []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told[agent.HookRelease], c.told[agent.HookAcquire], c.released, c.wrong
}

// The notes of a release reach the next owner of the shard unchanged, in joins, stops and returns: over control streams to the leader, in
// its commit, and to the app. A node that was killed leaves no notes.
func TestNotesGoWithTheirShards(t *testing.T) {
	bubble(t, func(w *world) {
		c := w.carried()
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.until("every shard is served", w.allServed)
		for range 3 {
			w.all["c"].terminate()
			w.untilSettled("a", "b")
			w.until("every shard is served", w.allServed)
			w.all["c"].restart()
			w.untilSettled("a", "b", "c")
			w.until("every shard is served", w.allServed)
		}
		released, acquires, as, wrong := c.figures()
		t.Logf("%d releases, %d acquires, %d of them as released", released, acquires, as)
		if released == 0 || as != released || len(wrong) > 0 {
			t.Errorf("%d shards released, %d acquired as released: %v", released, as, wrong)
		}
		w.all["b"].kill()
		w.untilSettled("a", "c")
		w.until("every shard is served", w.allServed)
		if n, _, after, _ := c.figures(); after != as || n != released {
			t.Errorf("a node was killed: %d more released, %d more acquired as released", n-released, after-as)
		}
	})
}
