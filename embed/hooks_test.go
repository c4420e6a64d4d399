package embed_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"shardway/embed"
)

// shelf is where the apps of a test keep the counts of their shards: what is on it nobody
// has in memory.
type shelf struct {
	mu     sync.Mutex
	counts map[int]int
	lost   int
}

// counter is an app that counts by shard, in memory while it holds one.
type counter struct {
	mu   sync.Mutex
	held map[int]int
}

// hooks gives the config an app that carries its counts from node to node.
func (s *shelf) hooks(c *embed.Config) {
	app := &counter{held: make(map[int]int)}
	c.Handler = func(ctx *fasthttp.RequestCtx) {
		shard, err := fasthttp.ParseUint(ctx.Request.Header.Peek("Shardway-Shard"))
		app.mu.Lock()
		defer app.mu.Unlock()
		if _, ok := app.held[shard]; err != nil || !ok {
			ctx.Error("asked before it was acquired", fasthttp.StatusTeapot)
			return
		}
		app.held[shard]++
		ctx.SetBodyString(strings.Repeat("x", app.held[shard]))
	}
	each := func(do func(shard int) error) embed.HookFunc {
		return func(_ context.Context, call embed.HookCall) (a embed.HookAnswer, _ error) {
			app.mu.Lock()
			defer app.mu.Unlock()
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, sh := range call.Shards {
				if err := do(sh.Shard); err != nil {
					a.Failed = map[int]string{sh.Shard: err.Error()}
				}
			}
			return a, nil
		}
	}
	first := true
	c.Acquire = each(func(shard int) error {
		if first {
			first = false
			return errors.New("not just now") // it is asked again
		}
		app.held[shard] = s.counts[shard]
		delete(s.counts, shard)
		return nil
	})
	c.Release = each(func(shard int) error {
		s.counts[shard] = app.held[shard]
		delete(app.held, shard)
		return nil
	})
	c.Lost = each(func(shard int) error {
		delete(app.held, shard)
		s.lost++
		return nil
	})
}

// What an app within the node holds goes with its shards: released here, acquired
// there, before the next request.
func TestHooksCarryStateFromNodeToNode(t *testing.T) {
	t.Parallel()
	s := &shelf{counts: make(map[int]int)}
	a := start(t, "a", nil, s.hooks)
	keys := []string{"alice", "bob", "carol", "dave"}
	asked := map[string]int{} // by shard, as the app counts
	ask := func(m *member) {
		for _, key := range keys {
			shard := string(rune('A' + m.ShardOf(key)))
			asked[shard]++
			if status, body := m.ask(t, "POST", "/", key, ""); status != 200 || len(body) != asked[shard] {
				t.Fatalf("%s at %s: %d %q, want %d", key, m.ID(), status, body, asked[shard])
			}
		}
	}
	ask(a)
	b := start(t, "b", nil, s.hooks, a)
	until(t, "both own shards", func() error { return is(len(a.Owned()) == 8 && len(b.Owned()) == 8) })
	ask(b)
	ask(a)
	b.stop()
	<-b.done
	ask(a)
}

// A panic in a hook is an error of that call and is found in the log; the node and the
// move go on.
func TestPanicOfAHookIsItsErrorOnly(t *testing.T) {
	t.Parallel()
	s := &shelf{counts: make(map[int]int)}
	a := start(t, "a", nil, func(c *embed.Config) {
		s.hooks(c)
		c.Release = func(context.Context, embed.HookCall) (embed.HookAnswer, error) { panic("no pen") }
	})
	b := start(t, "b", nil, s.hooks, a)
	until(t, "both own shards", func() error { return is(len(a.Owned()) == 8 && len(b.Owned()) == 8) })
	if status, body := b.ask(t, "POST", "/", "alice", ""); status != 200 {
		t.Errorf("%d %q", status, body)
	}
	if log := a.log.String(); !strings.Contains(log, "no pen") || !strings.Contains(log, "hooks_test.go") {
		t.Errorf("nobody finds the panic in\n%s", log)
	}
}
