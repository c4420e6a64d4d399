package proxy_test

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/proxy/accesslog"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// near reports whether got deviates from want by up to the given fraction.
func near(got, want, part float64) bool { return math.Abs(got-want) <= part*want }

// In one minute of virtual time, one key gets 40 requests per second of 10 ms each, and another one
// gets ten. The node reports the load of their shards, and its estimate of the load of the keys.
func TestLoadReportsBusyShardsAndKeys(t *testing.T) {
	const clients = 2 // for each key
	// Keys are sampled at one in 16 and averaged over 10 s, which corresponds to a sample of 20 s.
	// This is five standard deviations.
	deviation := func(rate float64) float64 { return 5 * math.Sqrt(16/(20*rate)) }
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		app := func(conn net.Conn, r *bufio.Reader) {
			for {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
				if _, err := fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
					return
				}
			}
		}
		keys := func(o *proxy.Options) {
			o.Shards, o.HashKey = shards, func() []byte { return []byte("s") }
			o.Access = &accesslog.Config{Log: zerolog.Nop(), Keys: o.Node == "ingress"}
		}
		owner, ingress := simNode(t, sim, "owner", app, keys), simNode(t, sim, "ingress", app, keys)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		for key, every := range map[string]time.Duration{"hot": 25 * time.Millisecond, "warm": 100 * time.Millisecond} {
			for range clients {
				c := ingress.dial()
				go func() {
					defer func() { _ = c.Close() }()
					for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(every - 10*time.Millisecond) {
						c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", key)
						c.answer("GET")
					}
				}()
			}
		}
		time.Sleep(time.Minute)
		here, there := owner.Load(), ingress.Load()
		if len(here.Shards) != 2 || len(there.Shards) != 0 || len(here.Keys) != 0 || len(there.Keys) != 2 {
			t.Fatalf("owner %+v, ingress %+v", here, there)
		}
		for i, want := range []struct {
			key  string
			rate float64
		}{{"hot", clients * 40}, {"warm", clients * 10}} {
			s, k := here.Shards[i], there.Keys[i]
			if s.Shard != shardmap.ShardOf(want.key, shards) || !near(s.Requests, want.rate, 0.1) || !near(s.Busy, want.rate/100, 0.25) || s.Bytes < 100*want.rate {
				t.Errorf("shard %+v, want %v requests/s", s, want.rate)
			}
			if k.Key != want.key || k.Shard != s.Shard || k.Hash != shardkey.Hash([]byte("s"), []byte(want.key)) || !near(k.Requests, want.rate, deviation(want.rate)) {
				t.Errorf("key %+v, want %s with %v requests/s", k, want.key, want.rate)
			}
		}
		time.Sleep(5 * time.Minute)
		if l := owner.Load(); len(l.Shards) != 0 {
			t.Errorf("after five minutes of rest: %+v", l.Shards)
		}
		if l := ingress.Load(); len(l.Keys) != 0 {
			t.Errorf("after five minutes of rest: %+v", l.Keys)
		}
	})
}

// WebSockets are counted while they exist. A WebSocket that is open for an hour does not count as an
// hour of work.
func TestLoadCountsWebSockets(t *testing.T) {
	n := newNode(t, "a", hangingAt(t), func(o *proxy.Options) { o.Shards = shards })
	c := n.dial()
	c.send("GET /ws HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	c.head("GET")
	until(t, "the socket counts", func() bool {
		l := n.Load()
		return len(l.Shards) == 1 && l.Shards[0].Sockets == 1 && l.Shards[0].Busy == 0 && n.CountUpgraded() == 1
	})
	n.CancelShards(allShards, "draining")
	until(t, "it has gone", func() bool {
		l := n.Load()
		return (len(l.Shards) == 0 || l.Shards[0].Sockets == 0) && n.CountUpgraded() == 0
	})
}

// A node with a thousand shards reports the busiest ones. It reports keys without their text, unless
// the access log contains them, and no requests without a shard.
func TestLoadReportsBusiestWithoutSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		n := simNode(t, newSim(t), "a", simple, func(o *proxy.Options) { o.Shards = many })
		n.table.Store(tableOf(many, func(int) route.Route { return local(1)(0) }))
		c := n.dial()
		c.send("OPTIONS / HTTP/1.1\r\nHost: h\r\nAccess-Control-Request-Method: PUT\r\n\r\n")
		c.answer("OPTIONS")
		time.Sleep(2 * time.Second)
		if l := n.Load(); len(l.Shards) != 0 {
			t.Errorf("a request without a key counts: %+v", l.Shards)
		}
		for i := range 1000 {
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %d\r\n\r\n", i)
			c.answer("GET")
		}
		time.Sleep(2 * time.Second)
		l := n.Load()
		if len(l.Shards) != 64 || len(l.Keys) == 0 || len(l.Keys) > 32 {
			t.Fatalf("%d shards and %d keys are named, want 64, and up to 32", len(l.Shards), len(l.Keys))
		}
		for _, k := range l.Keys {
			if k.Key != "" {
				t.Errorf("named: %+v", k)
			}
		}
		_ = c.Close()
	})
}

// tableOf returns a table of n shards.
func tableOf(n int, routeOf func(s int) route.Route) *route.Table {
	return route.NewTable(route.TableSpec{
		Generation: 5, Committed: 6, Proposed: 7, Shards: n,
		Route: func(s shardmap.Shard) route.Route { return routeOf(int(s)) },
	})
}
