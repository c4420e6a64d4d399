package node_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/node"
	"shardway/shardmap"
)

// ledger records what all apps of a test were called with: which app holds which shard, and each violation.
type ledger struct {
	mu    sync.Mutex
	held  map[shardmap.Shard]string // the app that holds a shard
	told  map[agent.HookKind]int
	again int
	wrong []error
}

func newLedger() *ledger {
	return &ledger{held: map[shardmap.Shard]string{}, told: map[agent.HookKind]int{}}
}

func (l *ledger) count(k agent.HookKind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told[k]
}

func (l *ledger) acquiredAgain() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again
}

func (l *ledger) holder(s shardmap.Shard) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[s]
}

// dies removes what the app of a node held, because its process has ended.
func (l *ledger) dies(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.held, func(_ shardmap.Shard, who string) bool { return who == node })
}

// appOf is the app of one node. Its hooks take some time.
type appOf struct {
	l    *ledger
	node string
	// ill, if not nil, determines the result of its calls.
	ill func(ctx context.Context, c agent.HookCall) error
}

func (a appOf) Do(ctx context.Context, c agent.HookCall) agent.HookResult {
	if a.ill != nil {
		if err := a.ill(ctx, c); err != nil {
			return agent.HookResult{Err: err}
		}
	}
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
		return agent.HookResult{Err: ctx.Err()}
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	for _, s := range c.Shards {
		a.l.told[c.Kind]++
		switch c.Kind {
		case agent.HookAcquire:
			if who := a.l.held[s.Shard]; who != "" && who != a.node {
				a.l.wrong = append(a.l.wrong, fmt.Errorf("%s acquires shard %d, which %s holds", a.node, s.Shard, who))
			}
			a.l.held[s.Shard] = a.node
			if s.Again {
				a.l.again++
			}
		case agent.HookRelease, agent.HookLost:
			if a.l.held[s.Shard] == a.node {
				delete(a.l.held, s.Shard)
			}
		}
	}
	return agent.HookResult{}
}

// hooked gives every node an app that records its calls in l. ill may make calls fail.
func (w *world) hooked(l *ledger, ill func(node string) func(context.Context, agent.HookCall) error) {
	w.tune = func(o *node.Options) {
		a := appOf{l: l, node: o.Dir.Node()}
		if ill != nil {
			a.ill = ill(a.node)
		}
		o.Hooks, o.ReleaseTimeout, o.AcquireTimeout = a, 4*time.Second, time.Minute
	}
	check := w.moment
	w.moment = func() {
		w.onlyHeld(l)
		check()
	}
}

// onlyHeld fails if a node admits requests of a shard that its app does not hold.
func (w *world) onlyHeld(l *ledger) {
	for _, p := range w.running() {
		if !p.started() {
			continue
		}
		for s := range shardmap.Shard(shards) {
			if epoch, ok := p.node.Admits(s); ok && l.holder(s) != p.name {
				w.t.Fatalf("%s admits shard %d of epoch %d, which %q holds", p.name, s, epoch, l.holder(s))
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range l.wrong {
		w.t.Fatal(err)
	}
}

// allServed reports whether each shard is admitted by a node.
func (w *world) allServed() bool {
	for s := range shardmap.Shard(shards) {
		served := false
		for _, p := range w.running() {
			if p.started() {
				_, ok := p.node.Admits(s)
				served = served || ok
			}
		}
		if !served {
			return false
		}
	}
	return true
}

// A join, a stop and a return move shards. The old app releases each shard before the new app acquires it, and no node serves it in
// between.
func TestShardsAreReleasedBeforeTheyAreAcquired(t *testing.T) {
	bubble(t, func(w *world) {
		l := newLedger()
		w.hooked(l, nil)
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.until("every shard is served", w.allServed)
		if n := l.count(agent.HookRelease); n == 0 || l.count(agent.HookLost) > 0 {
			t.Errorf("%d shards released, %d lost: want each that moved released", n, l.count(agent.HookLost))
		}
		before := l.count(agent.HookRelease)
		w.all["c"].terminate()
		w.untilSettled("a", "b")
		w.until("every shard is served", w.allServed)
		if n := l.count(agent.HookRelease) - before; n != shards/3 || l.count(agent.HookLost) > 0 {
			t.Errorf("c has released %d shards and %d were lost, want %d and 0", n, l.count(agent.HookLost), shards/3)
		}
		told := 0
		for _, s := range w.all["a"].node.API().Shards().Shards {
			if s.Previous == "c" && s.Released {
				told++
			}
		}
		if told != shards/3 {
			t.Errorf("of %d shards it is told that c has released them, want %d", told, shards/3)
		}
	})
}

// An app that rejects releases, blocks or returns errors does not stop a map change: its node acknowledges after release-timeout, and is
// not excluded for that.
func TestReleaseThatFailsDoesNotStopTheMap(t *testing.T) {
	bubble(t, func(w *world) {
		l := newLedger()
		w.hooked(l, func(name string) func(context.Context, agent.HookCall) error {
			return func(ctx context.Context, c agent.HookCall) error {
				switch {
				case c.Kind == agent.HookLost: // the next owner records what it finds in the ledger
					return nil
				case c.Kind != agent.HookRelease:
					return nil
				case name == "a":
					<-ctx.Done()
					return ctx.Err()
				}
				return errors.New("500")
			}
		})
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.until("every shard is served", w.allServed)
		if n := l.count(agent.HookRelease); n > 0 {
			t.Errorf("%d shards released, want 0", n)
		}
		for _, p := range w.running() {
			for _, name := range w.names {
				if d, ok := p.node.State().Drop(shardmap.NodeID(name)); ok {
					t.Errorf("%s was dropped: %s", name, d.Cause)
				}
			}
		}
	})
}

// A node whose process was killed finds its app unchanged. It acquires all shards again, tells the app so, and serves no request before.
func TestRestartedNodeAcquiresAgain(t *testing.T) {
	bubble(t, func(w *world) {
		l := newLedger()
		w.hooked(l, nil)
		w.start("a")
		w.untilSettled("a")
		w.until("every shard is served", w.allServed)
		w.all["a"].kill()
		before := l.acquiredAgain()
		w.all["a"].restart()
		w.untilSettled("a")
		w.until("every shard is served", w.allServed)
		if again := l.acquiredAgain() - before; again != shards {
			t.Errorf("%d shards acquired again, want %d", again, shards)
		}
	})
}
