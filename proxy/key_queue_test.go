package proxy_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/shardmap"
)

// Requests of one key run one at a time, while other keys of the same shard are not affected. The key is
// the same whether the request arrived at the owner or was forwarded.
func TestKeysOfOneShardDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, owner, others := turns(t, func(o *proxy.Options) { o.MaxKeyInflight, o.ShardQueue = 1, 8 })
		const key = "a b%c\xff%20"
		var other string
		for i := 0; other == "" || shardmap.ShardOf(other, shards) != shardmap.ShardOf(key, shards); i++ {
			other = fmt.Sprint("other ", i)
		}
		began := time.Now()
		all := []*client{owner.asks("GET", "/1", key), others[0].asks("GET", "/2", key), others[1].asks("POST", "/3", key), owner.asks("POST", "/4", key)}
		others[0].asks("GET", "/other", other).wantAnswer("another key of the shard", 200, "")
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("another key of the shard was served after %v, want a second", took)
		}
		for _, c := range all {
			c.wantAnswer("of the key", 200, "")
		}
		if got, want := app.took(), []string{"/1", "/other", "/2", "/3", "/4"}; !slices.Equal(got, want) || app.highest != 1 {
			t.Errorf("%v, %d of one key at a time; want %v and 1", got, app.highest, want)
		}
	})
}

// Without a queue, further requests of the key fail at once.
func TestKeyLimitWithoutQueueRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, owner, others := turns(t, func(o *proxy.Options) { o.MaxKeyInflight = 2 })
		all := []*client{owner.asks("GET", "/1", "k"), others[0].asks("GET", "/2", "k")}
		for _, n := range []*node{owner, others[0], others[1]} {
			n.asks("POST", "/3", "k").wantAnswer("beyond the limit", 503, "key-busy")
		}
		for _, c := range all {
			c.wantAnswer("within the limit", 200, "")
		}
		owner.asks("POST", "/4", "k").wantAnswer("after them", 200, "")
	})
}

// A request of an app in the node's process counts until its handler has returned, also if its client
// has disconnected. Random requests, disconnects and limits never let two requests of one key run at the
// same time, and leave nothing behind.
func TestKeyLimitIsExactInHandler(t *testing.T) {
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			const keys = 3
			var running [keys]atomic.Int32
			var overlaps, ran atomic.Int32
			front, owner := start(t, func(ctx *fasthttp.RequestCtx) {
				key := int(ctx.Request.Header.Peek("Shardway-Key")[0] - '0')
				if running[key].Add(1) > 1 {
					overlaps.Add(1)
				}
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
				running[key].Add(-1)
				ran.Add(1)
			}, func(o *proxy.Options) { o.MaxKeyInflight, o.ShardQueue = 1, 64 })
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() {
					for range 20 {
						c := front.dial()
						c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %d\r\nContent-Length: 0\r\n\r\n", []string{"GET", "POST"}[rand.IntN(2)], rand.IntN(keys))
						if rand.IntN(4) == 0 {
							time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
						} else if res, _ := c.answer("GET"); res.StatusCode != 200 {
							t.Errorf("response = %s", res.Status)
						}
						_ = c.Close()
					}
				})
			}
			all.Wait()
			if overlaps.Load() != 0 {
				t.Errorf("two requests of one key ran at the same time %d times", overlaps.Load())
			}
			until(t, "nothing is left", func() bool { return owner.KeysInFlight() == 0 && owner.room.Stats().Waiting == 0 })
		})
	}
}

// trickling is an app that sends its response to /long during 20 s.
func trickling(conn net.Conn, r *bufio.Reader) {
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		size := 0
		if req.URL.Path == "/long" {
			size = 20
		}
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size); err != nil {
			return
		}
		for range size {
			time.Sleep(time.Second)
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
		}
	}
}

// Two requests of one key never run at the same time, also if the app answers slowly: unlike for the limit
// of a shard, a long response counts until its end.
func TestLongResponseCountsForKeyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", trickling, func(o *proxy.Options) { o.MaxKeyInflight = 1 })
		c := n.dial()
		c.send("GET /long HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		time.Sleep(15 * time.Second)
		n.asks("GET", "/", "k").wantAnswer("beside a long response", 503, "key-busy")
		c.wantAnswer("long", 200, "")
		n.asks("GET", "/", "k").wantAnswer("after it", 200, "")
	})
}

// An event loop never sends a second request of a key to the app.
func TestEventLoopObeysKeyLimit(t *testing.T) {
	n := newNode(t, "a", hangingAt(t), func(o *proxy.Options) { o.MaxKeyInflight = 1 })
	first, second := n.dial(), n.dial()
	for range 8 {
		for _, c := range []*client{first, second} {
			if res, _ := c.get("/"); res.StatusCode != http.StatusOK {
				t.Fatalf("alone: %s", res.Status)
			}
			time.Sleep(5 * time.Millisecond) // the connection may join an event loop
		}
	}
	first.send("GET /hang HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "one runs", func() bool { return n.running.Load() == 1 })
	if res, body := second.get("/"); res.Header.Get("Shardway-Error") != "key-busy" {
		t.Errorf("beside it: %s %s", res.Status, body)
	}
	n.CancelShards(allShards, "draining")
}
