package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/shardmap"
)

// A node that stops and keeps its shards, because no other node can take them, has its app release them, as the last node and when all
// nodes stop. Once, its process ended a moment after it had requested that, and state that the app had not stored was lost. With a client
// that stayed connected, it ended immediately.
func TestAppReleasesWhatItsNodeKeepsAsItStops(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, busy %v", names, busy), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(w *world) {
					l := newLedger()
					w.hooked(l, func(string) func(context.Context, agent.HookCall) error {
						return func(ctx context.Context, c agent.HookCall) error {
							if c.Kind != agent.HookRelease {
								return nil
							}
							select {
							case <-time.After(1500 * time.Millisecond):
								return nil
							case <-ctx.Done():
								return ctx.Err()
							}
						}
					})
					for _, name := range names {
						w.start(name)
					}
					w.untilSettled(names...)
					w.untilVoters(len(names))
					w.until("every shard is served", w.allServed)
					if busy {
						for _, p := range w.running() {
							w.occupied(p)
						}
					}
					before, began := l.count(agent.HookRelease), time.Now()
					for _, p := range w.running() {
						p.stop()
					}
					for _, name := range names {
						<-w.all[name].done
					}
					if n := l.count(agent.HookRelease) - before; n != shards {
						t.Errorf("%d shards released, want %d", n, shards)
					}
					if took := time.Since(began); took > 31*time.Second {
						t.Errorf("it took %v to stop", took)
					}
				})
			})
		}
	}
}

// occupied sends a request for a key of p, to which its app never responds, and returns once the request has arrived.
func (w *world) occupied(p *process) {
	w.t.Helper()
	app, err := p.host.Listen(":9000")
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := w.net.Host("client of "+p.name).Dial(context.Background(), p.host.Addr(8080))
	if err != nil {
		w.t.Fatal(err)
	}
	key := ""
	for i := 0; key == "" || w.committed().Owner(shardmap.ShardOf(key, shards)) != shardmap.NodeID(p.name); i++ {
		key = fmt.Sprint("k", i)
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", key); err != nil {
		w.t.Fatal(err)
	}
	if _, err := app.Accept(); err != nil {
		w.t.Fatal(err)
	}
}
