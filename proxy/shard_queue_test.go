package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/procpool"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// turnApp is an app that records the order of its requests and how many run at the same time. Each
// request takes a second.
type turnApp struct {
	mu      sync.Mutex
	order   []string
	running map[string]int // by key
	highest int            // highest number of requests of one key or, for the empty key, in total
	total   int
	most    int  // highest total
	broke   bool // the connection of the first request for /breaks was closed without a response
}

// serve handles one connection of a node.
func (app *turnApp) serve(conn net.Conn, r *bufio.Reader) {
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		key := req.Header.Get("Shardway-Key")
		app.mu.Lock()
		app.order = append(app.order, req.URL.Path)
		if app.running == nil {
			app.running = map[string]int{}
		}
		app.running[key]++
		app.total++
		app.highest, app.most = max(app.highest, app.running[key]), max(app.most, app.total)
		breaks := req.URL.Path == "/breaks" && !app.broke
		app.broke = app.broke || breaks
		app.mu.Unlock()
		time.Sleep(time.Second)
		app.mu.Lock()
		app.running[key]--
		app.total--
		app.mu.Unlock()
		if breaks {
			return
		}
		res := http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1}
		if res.Write(conn) != nil {
			return
		}
	}
}

// took returns the paths that the app has received, in order.
func (app *turnApp) took() []string {
	app.mu.Lock()
	defer app.mu.Unlock()
	return slices.Clone(app.order)
}

// forgetHighest makes the app measure the highest number of concurrent requests again, from the next request on.
func (app *turnApp) forgetHighest() {
	app.mu.Lock()
	defer app.mu.Unlock()
	app.highest, app.most = 0, 0
}

// turns starts an owner with a turnApp, and two other nodes that forward to it.
func turns(t *testing.T, change ...func(*proxy.Options)) (app *turnApp, owner *node, ingresses []*node) {
	t.Helper()
	sim := newSim(t)
	app = &turnApp{}
	change = append([]func(*proxy.Options){func(o *proxy.Options) { o.QueueWait = time.Minute }}, change...)
	owner = simNode(t, sim, "owner", app.serve, change...)
	for _, id := range []string{"b", "c"} {
		ingress := simNode(t, sim, id, simple, change...)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		ingresses = append(ingresses, ingress)
	}
	return app, owner, ingresses
}

// asks sends a request with a key from a new client, and waits until all nodes have processed it.
func (n *node) asks(method, path, key string) *client {
	n.t.Helper()
	c := n.sendManyRequests(1, method+" "+path+" HTTP/1.1\r\nHost: h\r\nX-Shard-Key: "+key+"\r\nContent-Length: 0\r\n\r\n")[0]
	time.Sleep(5 * time.Millisecond) // a first request through another node waits for a dial
	return c
}

// wantAnswer fails the test unless the client gets a response with the status and the error code.
func (c *client) wantAnswer(what string, status int, code string) {
	c.t.Helper()
	res, body := c.answer("GET")
	if res.StatusCode != status || res.Header.Get("Shardway-Error") != code {
		c.t.Errorf("%s: %s %q %s, want %d %q", what, res.Status, res.Header.Get("Shardway-Error"), body, status, code)
	}
	_ = c.Close()
}

// inflightLimits are the two in-flight limits with a queue.
var inflightLimits = []struct {
	name, code string
	set        func(o *proxy.Options, limit int)
}{
	{"shard", "shard-busy", func(o *proxy.Options, limit int) { o.MaxShardInflight = limit }},
	{"key", "key-busy", func(o *proxy.Options, limit int) { o.MaxKeyInflight = limit }},
}

// processPerKey connects each key to the app of the test, as if each key had its own process of the app.
type processPerKey struct {
	dial  func(ctx context.Context) (net.Conn, error)
	ended func() <-chan struct{} // nil means that the processes do not end
}

func (processPerKey) CheckKey([]byte) error { return nil }

func (processPerKey) TargetOf(shard shardmap.Shard, key []byte) procpool.Target {
	return procpool.Target{Shard: shard, Key: string(key)}
}

func (p processPerKey) Dial(ctx context.Context, _ procpool.Target) (conn net.Conn, ended <-chan struct{}, err error) {
	if p.ended != nil {
		ended = p.ended()
	}
	conn, err = p.dial(ctx)
	return conn, ended, err
}

// limitShardOfProcesses sets a limit for all processes of a shard together.
func limitShardOfProcesses(o *proxy.Options, limit int) {
	o.MaxShardInflight, o.Processes = limit, processPerKey{dial: o.DialUpstream}
}

// eachInflightLimit runs a test in virtual time for each of the in-flight limits, with a limit of one
// request and the given queue.
func eachInflightLimit(t *testing.T, queued int, test func(t *testing.T, limit func(*proxy.Options), code string)) {
	t.Helper()
	withProcesses := inflightLimits[0]
	withProcesses.name, withProcesses.set = "shard with a process per key", limitShardOfProcesses
	for _, kind := range append(slices.Clone(inflightLimits), withProcesses) {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(t, func(o *proxy.Options) {
					kind.set(o, 1)
					o.ShardQueue = queued
				}, kind.code)
			})
		})
	}
}

// Requests beyond the limit of their shard or key wait at its owner, in the order of their arrival through all
// nodes. A request beyond the queue fails at once.
func TestShardQueueKeepsOrderOfArrival(t *testing.T) {
	eachInflightLimit(t, 7, func(t *testing.T, limit func(*proxy.Options), code string) {
		t.Helper()
		app, owner, others := turns(t, limit)
		var other string // another key of the shard
		for i := 0; other == "" || shardmap.ShardOf(other, shards) != shardmap.ShardOf("k", shards); i++ {
			other = fmt.Sprint("other ", i)
		}
		fronts := []*node{owner, others[0], others[1]}
		var all []*client
		var want []string
		for i := range 8 {
			path, key := fmt.Sprint("/", i), "k"
			if code == "shard-busy" && i%2 == 1 {
				key = other
			}
			all, want = append(all, fronts[i%3].asks([]string{"GET", "POST"}[i%2], path, key)), append(want, path)
		}
		began := time.Now()
		owner.asks("GET", "/beyond", "k").wantAnswer("beyond the queue", 503, code)
		others[0].asks("GET", "/beyond", "k").wantAnswer("beyond the queue, at another node", 503, code)
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("beyond the queue after %v, want at once", took)
		}
		for i, c := range all {
			c.wantAnswer(want[i], 200, "")
		}
		if got := app.took(); !slices.Equal(got, want) || app.most != 1 {
			t.Errorf("%v with %d at a time, want %v with 1", got, app.most, want)
		}
		if waiting := owner.room.Stats().Waiting + others[0].room.Stats().Waiting; waiting != 0 {
			t.Errorf("%d places in the queues are still in use", waiting)
		}
	})
}

// A queued client that disconnects frees its place, and its request never runs.
func TestDisconnectedClientLeavesShardQueue(t *testing.T) {
	for _, kind := range inflightLimits {
		t.Run(kind.name, func(t *testing.T) {
			testDisconnectedClientLeavesQueue(t, kind.code, func(o *proxy.Options) { kind.set(o, 1) })
		})
	}
}

func testDisconnectedClientLeavesQueue(t *testing.T, code string, limit func(*proxy.Options)) {
	t.Helper()
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			var mu sync.Mutex
			var took []string
			arrived, proceed := make(chan struct{}, 8), make(chan struct{})
			app := webApp(t, func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				took = append(took, r.URL.Path)
				mu.Unlock()
				arrived <- struct{}{}
				<-proceed
			})
			front, owner := start(t, app, limit, func(o *proxy.Options) { o.ShardQueue, o.QueueWait = 2, time.Minute })
			ask := func(path string) *client {
				c := front.dial()
				c.send("POST %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", path)
				return c
			}
			waiting := func(n int) {
				t.Helper()
				until(t, fmt.Sprint(n, " wait"), func() bool { return owner.room.Stats().Waiting == n })
			}
			all := []*client{ask("/first")}
			<-arrived
			gone := ask("/gone")
			waiting(1)
			all = append(all, ask("/next"))
			waiting(2)
			ask("/beyond").wantAnswer("beyond the queue", 503, code)
			_ = gone.Close()
			waiting(1)
			all = append(all, ask("/last"))
			waiting(2)
			close(proceed)
			for _, c := range all {
				c.wantAnswer("one that stays", 200, "")
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(took, []string{"/first", "/next", "/last"}) {
				t.Errorf("the app got %v", took)
			}
		})
	}
}

// If the shard moves, queued requests run at the new owner. The request in progress finishes at the old
// one, and nothing waits for the queue.
func TestShardQueueMovesToNewOwner(t *testing.T) {
	eachInflightLimit(t, 8, func(t *testing.T, limit func(*proxy.Options), _ string) {
		t.Helper()
		app, owner, others := turns(t, limit)
		next := others[1] // its app is simple
		first := owner.asks("POST", "/first", "k")
		queued := []*client{owner.asks("POST", "/a", "k"), others[0].asks("POST", "/b", "k"), others[0].asks("GET", "/c", "k")}
		owner.knows("c", next)
		others[0].knows("c", next)
		owner.swap(1, 2, held(route.ReasonMoving))
		others[0].swap(1, 2, held(route.ReasonMoving))
		synctest.Wait()
		if running := owner.running.Load(); running != 1 {
			t.Errorf("%d requests are in flight at the old owner, want the first one only", running)
		}
		began := time.Now()
		next.swap(2, 2, local(2))
		owner.swap(2, 2, remote("c", 2))
		others[0].swap(2, 2, remote("c", 2))
		for _, c := range queued {
			c.wantAnswer("queued", 200, "")
		}
		if took := time.Since(began); took > time.Second/2 {
			t.Errorf("queued requests ran at the new owner after %v, want at once", took)
		}
		first.wantAnswer("first", 200, "")
		if running := owner.running.Load(); running != 0 {
			t.Errorf("%d requests are in flight at the old owner after the first one", running)
		}
		if got := app.took(); !slices.Equal(got, []string{"/first"}) {
			t.Errorf("the old owner's app got %v", got)
		}
	})
}

// A queued request waits up to queue-wait, at its ingress and at the owner.
func TestShardQueueWaitEnds(t *testing.T) {
	eachInflightLimit(t, 8, func(t *testing.T, limit func(*proxy.Options), code string) {
		t.Helper()
		_, owner, others := turns(t, limit, func(o *proxy.Options) { o.QueueWait = 1500 * time.Millisecond })
		all := []*client{owner.asks("GET", "/1", "k"), owner.asks("GET", "/2", "k")}
		late := []*client{owner.asks("POST", "/3", "k"), others[0].asks("POST", "/4", "k")}
		began := time.Now()
		for _, c := range late {
			c.wantAnswer("late", 503, code)
		}
		if took := time.Since(began).Round(20 * time.Millisecond); took != 1500*time.Millisecond {
			t.Errorf("after %v", took)
		}
		for _, c := range all {
			c.wantAnswer("in time", 200, "")
		}
	})
}

// A request that Shardway sends again precedes the requests that wait, and the limit still holds.
func TestRetriedRequestPrecedesShardQueue(t *testing.T) {
	eachInflightLimit(t, 8, func(t *testing.T, limit func(*proxy.Options), _ string) {
		t.Helper()
		app, owner, others := turns(t, limit)
		all := []*client{others[0].asks("GET", "/breaks", "k"), owner.asks("GET", "/a", "k"), owner.asks("GET", "/b", "k"), others[0].asks("GET", "/c", "k")}
		for _, c := range all {
			c.wantAnswer("each", 200, "")
		}
		if got, want := app.took(), []string{"/breaks", "/a", "/breaks", "/b", "/c"}; !slices.Equal(got, want) || app.most != 1 {
			t.Errorf("%v with %d at a time, want %v with 1", got, app.most, want)
		}
	})
}
