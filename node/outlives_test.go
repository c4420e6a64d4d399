package node_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/node"
	"shardway/shardmap"
)

// A node that fails closes its ports as if it were killed, and who is refused there
// takes its shards as soon as its lease has run out. What an app within it still runs
// has to end before, or the process: here dead-after is long beside the lease, and the
// handler does not heed its Done.
func TestHandlerOutlivesNoFailedNode(t *testing.T) {
	bubble(t, func(w *world) {
		began, over := make(chan string, 1), make(chan struct{})
		var once sync.Once
		w.tune = func(o *node.Options) {
			o.Timing.DeadAfter = 2 * time.Minute
			o.Overdue = func(error) { once.Do(func() { close(over) }) } // the process's end
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
			if s := shardmap.OfBytes([]byte(k), shards); p.node.State().Committed().Owner(s) == shardmap.NodeID(p.name) {
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
		w.start("d") // which makes it write
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
