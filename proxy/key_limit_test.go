package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/keylimit"
	"shardway/proxy/route"
)

// limited sets the limit of each key.
func limited(limit keylimit.Limit) func(*proxy.Options) {
	return func(o *proxy.Options) { o.KeyLimit = limit }
}

// asksFor sends a request without a body on a new connection and returns its response.
func (n *node) asksFor(method, key string) *reply {
	n.t.Helper()
	c := n.dial()
	defer func() { _ = c.Close() }()
	c.send("%s /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nContent-Length: 0\r\n\r\n", method, key)
	res, _ := c.answer(method)
	return res
}

// The rate of a key is limited exactly, through all nodes together, and other keys are not affected. The
// response contains the time after which a request succeeds.
func TestKeyRateIsLimitedThroughAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner, others := limitedNodes(t, keylimit.Limit{Interval: 2 * time.Second, Burst: 3})
		fronts := []*node{owner, others[0], others[1]}
		for i := range 3 {
			if res := fronts[i].asksFor("POST", "k"); res.StatusCode != 200 {
				t.Fatalf("within the burst: %s", res.Status)
			}
		}
		for _, front := range fronts {
			res := front.asksFor("GET", "k")
			got := fmt.Sprint(res.StatusCode, res.Header["Shardway-Error"], res.Header["Retry-After"], res.Header["Ratelimit-Policy"], res.Header["Ratelimit"])
			if want := `429 [rate-limited] [2] ["requests";q=3;w=6] ["requests";r=0;t=2]`; got != want {
				t.Errorf("beyond the burst: %s, want %s", got, want)
			}
		}
		if res := others[0].asksFor("GET", "another"); res.StatusCode != 200 {
			t.Errorf("another key: %s", res.Status)
		}
		time.Sleep(2 * time.Second)
		var served int
		for range 4 {
			if others[1].asksFor("GET", "k").StatusCode == 200 {
				served++
			}
		}
		if served != 1 {
			t.Errorf("%d requests are served after the time of one", served)
		}
		if load := owner.Load(); len(load.Limited) != 1 || load.Limited[0].Requests == 0 {
			t.Errorf("limited keys = %+v, want one", load.Limited)
		}
	})
}

// limitedNodes starts an owner and two other nodes with a limit for each key.
func limitedNodes(t *testing.T, limit keylimit.Limit) (owner *node, others []*node) {
	t.Helper()
	sim := newSim(t)
	change := []func(*proxy.Options){limited(limit), func(o *proxy.Options) { o.Shards = shards }}
	owner = simNode(t, sim, "owner", simple, change...)
	for _, id := range []string{"b", "c"} {
		other := simNode(t, sim, id, simple, change...)
		other.knows("owner", owner)
		other.swap(1, 1, remote("owner", 1))
		others = append(others, other)
	}
	return owner, others
}

// A request that Shardway sends again counts once, whether its connection broke or the owner refused it.
func TestRetriesCountOnceForKeyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		var requests atomic.Int32
		app := func(conn net.Conn, r *bufio.Reader) {
			for {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				if requests.Add(1)%2 == 1 {
					return // the connection breaks, and the request is sent again
				}
				if _, err := fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
					return
				}
			}
		}
		change := []func(*proxy.Options){limited(keylimit.Limit{Interval: time.Hour, Burst: 4, Concurrent: 1})}
		owner := simNode(t, sim, "owner", app, change...)
		ingress := simNode(t, sim, "ingress", simple, change...)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		for i, front := range []*node{owner, ingress} {
			if res := front.asksFor("GET", "k"); res.StatusCode != 200 {
				t.Fatalf("request %d: %s %v", i, res.Status, res.Header)
			}
		}
		owner.refuse.Store(int32(route.RefusedNoLease)) // the owner takes the token before it asks for admission
		c := ingress.dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
		time.Sleep(time.Second)
		requests.Store(1) // the next connection does not break
		owner.refuse.Store(0)
		if res, body := c.answer("POST"); res.StatusCode != 200 {
			t.Errorf("refused at first: %s %s", res.Status, body)
		}
		requests.Store(1)
		if res := ingress.asksFor("GET", "k"); res.StatusCode != 200 {
			t.Errorf("the fourth request: %s", res.Status)
		}
		requests.Store(1)
		if res := ingress.asksFor("GET", "k"); res.StatusCode != 429 {
			t.Errorf("the fifth request: %s, want 429", res.Status)
		}
	})
}

// The number of concurrent requests of a key is limited. A request beyond it takes no token.
func TestConcurrentRequestsOfKeyAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner, others := limitedNodes(t, keylimit.Limit{Interval: time.Hour, Burst: 3, Concurrent: 2})
		slow := []*client{owner.asks("GET", "/slow", "k"), others[0].asks("GET", "/slow", "k")}
		for _, front := range []*node{owner, others[1]} {
			res := front.asksFor("GET", "k")
			if got, want := fmt.Sprint(res.StatusCode, res.Header["Ratelimit-Policy"]), `429 ["concurrent-requests";q=2;qu="concurrent-requests"]`; got != want {
				t.Errorf("beside two: %s, want %s", got, want)
			}
		}
		for _, c := range slow {
			c.wantAnswer("one of the two", 200, "")
		}
		if res := others[1].asksFor("GET", "k"); res.StatusCode != 200 {
			t.Errorf("the third request: %s", res.Status)
		}
		if res := others[1].asksFor("GET", "k"); res.StatusCode != 429 || !strings.Contains(res.Header.Get("RateLimit"), `"requests"`) {
			t.Errorf("the fourth request: %s %v", res.Status, res.Header)
		}
	})
}

// The bytes of request bodies are limited, with and without a declared length. A body beyond the tokens of
// a second makes the key wait until they are available again. Requests without a body are not affected.
func TestBodyBytesOfKeyAreLimited(t *testing.T) {
	for name, send := range map[string]func(c *client, size int){
		"length": func(c *client, size int) {
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
		},
		"chunked": func(c *client, size int) {
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("x", size))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owner, others := limitedNodes(t, keylimit.Limit{BodyRate: 1000})
				ask := func(front *node, size int) *reply {
					c := front.dial()
					defer func() { _ = c.Close() }()
					send(c, size)
					res, _ := c.answer("POST")
					return res
				}
				if res := ask(others[0], 5000); res.StatusCode != 200 {
					t.Fatalf("the first body: %s", res.Status)
				}
				for _, front := range []*node{owner, others[1]} {
					res := ask(front, 1)
					got := fmt.Sprint(res.StatusCode, res.Header["Retry-After"], res.Header["Ratelimit-Policy"])
					if want := `429 [4] ["content-bytes";q=1000;qu="content-bytes";w=1]`; got != want {
						t.Errorf("the next body: %s, want %s", got, want)
					}
				}
				if res := owner.asksFor("GET", "k"); res.StatusCode != 200 {
					t.Errorf("without a body: %s", res.Status)
				}
				time.Sleep(4100 * time.Millisecond)
				if res := ask(owner, 1); res.StatusCode != 200 {
					t.Errorf("after 4 s: %s", res.Status)
				}
			})
		})
	}
}

// After a move, the new owner has full buckets.
func TestNewOwnerHasFullBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner, others := limitedNodes(t, keylimit.Limit{Interval: time.Hour, Burst: 1})
		for i, want := range []int{200, 429} {
			if res := owner.asksFor("GET", "k"); res.StatusCode != want {
				t.Errorf("request %d: %s", i, res.Status)
			}
		}
		others[0].swap(2, 2, local(2))
		owner.knows("b", others[0])
		owner.swap(2, 2, remote("b", 2))
		for i, want := range []int{200, 429} {
			if res := owner.asksFor("GET", "k"); res.StatusCode != want {
				t.Errorf("request %d at the new owner: %s", i, res.Status)
			}
		}
	})
}

// A reload changes the limit without giving a limited key a new bucket, and an event loop obeys it.
func TestKeyLimitIsReloaded(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	c := n.dial()
	for range 8 {
		if res, _ := c.get("/"); res.StatusCode != 200 {
			t.Fatalf("without a limit: %s", res.Status)
		}
		time.Sleep(5 * time.Millisecond) // the connection may join an event loop
	}
	for _, burst := range []int{1, 3} {
		n.Apply(proxy.Settings{KeyLimit: keylimit.Limit{Interval: time.Hour, Burst: burst}})
		served := 0
		for range 5 {
			if res, _ := c.get("/"); res.StatusCode == 200 {
				served++
			}
		}
		if want := (burst + 1) / 2; served != want {
			t.Errorf("%d requests are served with a burst of %d, want %d", served, burst, want)
		}
	}
}
