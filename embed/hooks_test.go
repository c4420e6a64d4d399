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

// sharedStore contains the counts of the shards that no app of the test has in memory.
type sharedStore struct {
	mu     sync.Mutex
	counts map[int]int
	lost   int
}

// counter is an app that counts requests by shard. It has the counts of its shards in memory.
type counter struct {
	mu   sync.Mutex
	held map[int]int
}

// hooks sets the hooks of an app that moves its counts from node to node.
func (s *sharedStore) hooks(c *embed.Config) {
	app := &counter{held: make(map[int]int)}
	c.Handler = func(ctx *fasthttp.RequestCtx) {
		shard, err := fasthttp.ParseUint(ctx.Request.Header.Peek("Shardway-Shard"))
		app.mu.Lock()
		defer app.mu.Unlock()
		if _, ok := app.held[shard]; err != nil || !ok {
			ctx.Error("request before the shard was acquired", fasthttp.StatusTeapot)
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
			return errors.New("not just now") // the node calls the hook again
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

// The state of an embedded app moves with its shards: the app of the previous owner releases it, and
// the app of the next owner acquires it before the next request.
func TestHooksCarryStateFromNodeToNode(t *testing.T) {
	t.Parallel()
	s := &sharedStore{counts: make(map[int]int)}
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

// A panic in a hook is an error of that call only. The log contains the panic, and the move continues.
func TestPanicOfAHookIsItsErrorOnly(t *testing.T) {
	t.Parallel()
	s := &sharedStore{counts: make(map[int]int)}
	a := start(t, "a", nil, func(c *embed.Config) {
		s.hooks(c)
		c.Release = func(context.Context, embed.HookCall) (embed.HookAnswer, error) { panic("planned panic") }
	})
	b := start(t, "b", nil, s.hooks, a)
	until(t, "both own shards", func() error { return is(len(a.Owned()) == 8 && len(b.Owned()) == 8) })
	if status, body := b.ask(t, "POST", "/", "alice", ""); status != 200 {
		t.Errorf("%d %q", status, body)
	}
	if log := a.log.String(); !strings.Contains(log, "planned panic") || !strings.Contains(log, "hooks_test.go") {
		t.Errorf("the log lacks the panic:\n%s", log)
	}
}
