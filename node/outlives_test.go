package node_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/ack/agent"
	"shardway/node"
	"shardway/shardmap"
)

// A failing node closes its ports as if it were killed, and a node whose dial is refused takes its shards as soon as the lease has expired.
// Handlers of an app in the same process must end before; otherwise the process must end. In this test dead-after is much longer than the
// lease, and the handler ignores its Done channel.
func TestHandlerOutlivesNoFailedNode(t *testing.T) {
	bubble(t, func(w *world) {
		began, over := make(chan string, 1), make(chan struct{})
		var once sync.Once
		w.tune = func(o *node.Options) {
			o.Timing.DeadAfter = 2 * time.Minute
			o.Overdue = func(error) { once.Do(func() { close(over) }) } // stands for the end of the process
			o.Proxy.Handler = func(ctx *fasthttp.RequestCtx) {
				began <- string(ctx.Request.Header.Peek("Shardway-Node"))
				<-over
			}
		}
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		p := w.leader()
		key, shard := "", shardmap.Shard(0)
		for i := 0; key == ""; i++ {
			k := fmt.Sprint("k", i)
			if s := shardmap.ShardOfBytes([]byte(k), shards); p.node.State().Committed().Owner(s) == shardmap.NodeID(p.name) {
				key, shard = k, s
			}
		}
		conn, err := w.net.Host("client").Dial(context.Background(), p.host.Addr(8080))
		if err != nil {
			w.t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", key); err != nil {
			w.t.Fatal(err)
		}
		if at := <-began; at != p.name {
			w.t.Fatalf("it runs on %q", at)
		}
		p.disk.breaks()
		w.start("d") // a join makes it write
		rest := w.others(p)
		w.until("another node admits its shard", func() bool {
			for _, name := range rest {
				if _, ok := w.all[name].node.Admits(shard); ok {
					return true
				}
			}
			return false
		})
		select {
		case <-over:
		default:
			w.t.Error("its shard is served elsewhere while its handler runs on")
			once.Do(func() { close(over) })
		}
		w.untilSettled(rest...)
	})
}

// Once, a hook in the node's own process that ignored its context kept Run from returning: a node that stops, or fails, waits for the calls
// that it has cancelled, and a function cannot be ended from outside. Now the process ends.
func TestHookOutlivesNoStop(t *testing.T) {
	for _, fails := range []bool{false, true} {
		for _, kind := range []agent.HookKind{agent.HookAcquire, agent.HookRelease} {
			t.Run(fmt.Sprintf("%s/fails=%v", kind, fails), func(t *testing.T) { bubble(t, func(w *world) { w.outlastedBy(kind, fails) }) })
		}
	}
}

func (w *world) outlastedBy(kind agent.HookKind, fails bool) {
	over, returns := make(chan error, 1), make(chan struct{})
	var called atomic.Bool
	w.hooked(newLedger(), func(string) func(context.Context, agent.HookCall) error {
		return func(_ context.Context, c agent.HookCall) error {
			if c.Kind == kind {
				called.Store(true)
				<-returns
			}
			return nil
		}
	})
	hooked := w.tune
	w.tune = func(o *node.Options) {
		hooked(o)
		o.Overdue = func(why error) { // stands for the end of the process
			select {
			case over <- why:
			default:
			}
		}
	}
	w.start("a")
	if kind == agent.HookAcquire {
		w.until("its app is told to acquire", called.Load)
	} else {
		w.untilSettled("a")
		w.until("every shard is served", w.allServed)
	}
	p := w.all["a"]
	if fails {
		p.disk.breaks()
		w.start("b") // a join makes it write
	}
	p.stop()
	if kind == agent.HookRelease && fails {
		close(returns) // a failing node releases nothing
		<-p.done
		return
	}
	select {
	case why := <-over:
		if !strings.Contains(why.Error(), "hook") {
			w.t.Errorf("it ends because %v", why)
		}
	case <-p.done:
		w.t.Error("Run returned while a hook ran on")
	case <-time.After(time.Hour): // time of the bubble: nothing else happens
		w.t.Error("a hook that does not return keeps the process from ending")
	}
	close(returns)
	<-p.done
}

// A hook does not outlive a failing node either, for the same reason as a handler.
func TestHookOutlivesNoFailedNode(t *testing.T) {
	bubble(t, func(w *world) {
		l := newLedger()
		began, over := make(chan agent.HookCall, 1), make(chan struct{})
		var once sync.Once
		var victim atomic.Pointer[string]
		w.hooked(l, func(name string) func(context.Context, agent.HookCall) error {
			return func(_ context.Context, c agent.HookCall) error {
				if v := victim.Load(); v != nil && *v == name && c.Kind == agent.HookRelease {
					began <- c
					<-over
				}
				return nil
			}
		})
		hooked := w.tune
		w.tune = func(o *node.Options) {
			hooked(o)
			o.Timing.DeadAfter = 2 * time.Minute
			name := o.Dir.Node()
			o.Overdue = func(error) { // stands for the end of the process and its app
				once.Do(func() {
					l.dies(name)
					close(over)
				})
			}
		}
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		w.until("every shard is served", w.allServed)
		p := w.leader()
		victim.Store(&p.name)
		w.start("d") // it releases shards to the new node
		shard := (<-began).Shards[0].Shard
		p.disk.breaks()
		w.start("e") // a join makes it write
		rest := w.others(p)
		w.until("another node admits the shard", func() bool {
			for _, name := range rest {
				if _, ok := w.all[name].node.Admits(shard); ok {
					return true
				}
			}
			return false
		})
		select {
		case <-over:
		default:
			w.t.Error("a shard is served elsewhere while its hook runs on")
			once.Do(func() { close(over) })
		}
		w.untilSettled(rest...)
	})
}
