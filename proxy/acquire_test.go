package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/queue"
	"shardway/shardmap"
)

// forgetful is an app that has a shard only after the acquire hook has been called for its epoch.
type forgetful struct {
	holds atomic.Bool
	ran   atomic.Int32
	mu    sync.Mutex
	asked []uint64 // epochs reported to the node
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.holds.Load() {
		w.Header().Set("Shardway-Acquire", "1")
		w.WriteHeader(http.StatusMisdirectedRequest)
		return
	}
	f.ran.Add(1)
	echo(w, r)
}

func (f *forgetful) epochs() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// notAcquired implements Options.NotAcquired.
func (f *forgetful) notAcquired(_ shardmap.Shard, epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, epoch)
}

// If an app that has restarted on its own reports that it has not acquired a shard, the shard is
// acquired and the request is retried. The client does not notice.
func TestRequestIsRetriedAfterAppReportsNotAcquired(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			app := &forgetful{}
			front, owner := start(t, webApp(t, app.ServeHTTP), func(o *proxy.Options) { o.NotAcquired = app.notAcquired })
			c := front.dial()
			c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nhello")
			until(t, "the node is told", func() bool { return len(app.epochs()) == 1 })
			owner.swap(1, 1, held(route.ReasonAcquiring))
			until(t, "it waits at the owner and counts as running no more", func() bool {
				return owner.room.Stats().Waiting == 1 && owner.running.Load() == 0
			})
			app.holds.Store(true)
			owner.swap(1, 1, local(1))
			if res, body := c.answer("POST"); res.StatusCode != http.StatusOK || body != "POST /x hello" {
				t.Errorf("%d %q", res.StatusCode, body)
			}
			if n, epochs := app.ran.Load(), app.epochs(); n != 1 || len(epochs) != 1 || epochs[0] != 1 {
				t.Errorf("it ran %d times, and the node was told of %v", n, epochs)
			}
			if front != owner {
				if n := metric(t, owner, "shardway_refused_total", "held"); n != 0 {
					t.Errorf("refused %v times: it is to go on at once", n)
				}
			}
		})
	}
}

// A late not-acquired response does not trigger a second acquire. Once, a restarted app that was slow
// to reject requests rejected some that were sent before it had acquired the shard again. Each one
// triggered another acquire, and all requests waited.
func TestLateNotAcquiredResponseTriggersNoSecondAcquire(t *testing.T) {
	const late = 3
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			app, here, say := &forgetful{}, make(chan struct{}, late), make(chan struct{})
			slow := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/late" && !app.holds.Load() {
					here <- struct{}{}
					<-say
					w.Header().Set("Shardway-Acquire", "1")
					w.WriteHeader(http.StatusMisdirectedRequest)
					return
				}
				app.ServeHTTP(w, r)
			}
			front, owner := start(t, webApp(t, slow), func(o *proxy.Options) { o.NotAcquired = app.notAcquired })
			var cs []*client
			for i := range late + 1 {
				c := front.dial()
				path := "/late"
				if i == late {
					path = "/soon"
				}
				c.send("POST %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", path)
				if i < late {
					<-here
				}
				cs = append(cs, c)
			}
			until(t, "the node is told", func() bool { return len(app.epochs()) == 1 })
			owner.swap(1, 1, held(route.ReasonAcquiring))
			app.holds.Store(true)
			owner.swap(1, 1, local(1))
			close(say)
			for i, c := range cs {
				if res, body := c.answer("POST"); res.StatusCode != http.StatusOK {
					t.Errorf("request %d: %d %q", i, res.StatusCode, body)
				}
			}
			if epochs := app.epochs(); len(epochs) != 1 {
				t.Errorf("the node was told of %v, want once", epochs)
			}
			app.holds.Store(false) // the requests after this are not part of the test
			c := front.dial()
			c.send("POST /again HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
			until(t, "the node is told again", func() bool { return len(app.epochs()) == 2 })
			app.holds.Store(true)
			owner.swap(1, 1, held(route.ReasonAcquiring))
			owner.swap(1, 1, local(1))
			if res, _ := c.answer("POST"); res.StatusCode != http.StatusOK {
				t.Errorf("sent anew: %d", res.StatusCode)
			}
		})
	}
}

// A rejected request waits for the new acquire of its shard. Other changes of the table do not release
// it. Once, such a change released the requests before the node had processed the report, and they
// were sent repeatedly until they got a response.
func TestNotAcquiredRequestWaitsForAcquire(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			app, asks := &forgetful{}, atomic.Int32{}
			var there atomic.Pointer[node]
			front, owner := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				asks.Add(1)
				app.ServeHTTP(w, r)
			}), func(o *proxy.Options) {
				o.NotAcquired = func(s shardmap.Shard, epoch uint64) {
					there.Load().swap(1, 1, local(1)) // a change of another shard
					app.notAcquired(s, epoch)
				}
			})
			there.Store(owner)
			c := front.dial()
			c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nhello")
			until(t, "the node is told, and it waits", func() bool { return len(app.epochs()) > 0 && owner.room.Stats().Waiting == 1 })
			owner.swap(1, 1, held(route.ReasonAcquiring))
			app.holds.Store(true)
			owner.swap(1, 1, local(1))
			if res, body := c.answer("POST"); res.StatusCode != http.StatusOK {
				t.Errorf("%d %q", res.StatusCode, body)
			}
			if n := asks.Load(); n != 2 {
				t.Errorf("the app was asked %d times, want once before it had acquired the shard and once after", n)
			}
		})
	}
}

// Without a lease, the app acquires nothing. A request for a shard that the app has not acquired waits
// at its ingress.
func TestNotAcquiredRequestIsNotKeptWithoutLease(t *testing.T) {
	app := &forgetful{}
	ingress, owner := pair(t, webApp(t, app.ServeHTTP), func(o *proxy.Options) { o.NotAcquired = app.notAcquired })
	c := ingress.dial()
	c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
	until(t, "it waits at the owner", func() bool { return owner.room.Stats().Waiting == 1 })
	owner.lease.Store(0)
	until(t, "it waits where its client is", func() bool {
		return owner.room.Stats().Waiting == 0 && ingress.room.Stats().Waiting == 1
	})
	app.holds.Store(true)
	owner.lease.Store(int64(time.Hour))
	if res, body := c.answer("POST"); res.StatusCode != http.StatusOK || body != "POST /x hi" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}

// An app that keeps rejecting a shard after it has acquired it is not asked forever. The client gets
// an error response.
func TestRepeatedNotAcquiredGetsErrorResponse(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			app := &forgetful{}
			var owner atomic.Pointer[node]
			front, o := start(t, webApp(t, app.ServeHTTP), func(o *proxy.Options) {
				o.NotAcquired = func(s shardmap.Shard, epoch uint64) {
					app.notAcquired(s, epoch)
					owner.Load().swap(1, 1, held(route.ReasonAcquiring))
					owner.Load().swap(1, 1, local(1)) // the shard is acquired at once
				}
			})
			owner.Store(o)
			res, body := front.dial().get("/x")
			wantStatus(t, res, body, http.StatusBadGateway, "upstream-broken")
			if n := len(app.epochs()); n != 2 || !strings.Contains(body, "has not run") {
				t.Errorf("told %d times, and then %s", n, body)
			}
		})
	}
}

// Without hooks, or without the header, a 421 is an ordinary response.
func TestOther421ResponsesPassThrough(t *testing.T) {
	for name, change := range map[string]func(*proxy.Options){
		"no hooks": func(*proxy.Options) {},
		"no word":  func(o *proxy.Options) { o.NotAcquired = func(shardmap.Shard, uint64) { t.Error("told") } },
	} {
		n := newNode(t, "a", webApp(t, func(w http.ResponseWriter, _ *http.Request) {
			if name == "no hooks" {
				w.Header().Set("Shardway-Acquire", "1")
			}
			w.WriteHeader(http.StatusMisdirectedRequest)
		}), change)
		if res, _ := n.dial().get("/"); res.StatusCode != http.StatusMisdirectedRequest || res.Header.Get("Shardway-Error") != "" {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
	}
}

// A forwarded request waits at an owner that acquires the shard, and is not counted as running. It is
// sent to the app only after the acquire. The next proposal sends it back to its ingress, because
// another node may need it, and frees its queue place at the owner.
func TestForwardedRequestsWaitForTheAcquire(t *testing.T) {
	for _, end := range []string{"serving", "proposal"} {
		t.Run(end, func(t *testing.T) {
			ingress, owner := pair(t, webApp(t, echo), func(o *proxy.Options) { o.QueueWait = time.Minute })
			owner.swap(1, 1, held(route.ReasonAcquiring))
			c := ingress.dial()
			c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
			until(t, "it waits at the owner", func() bool { return owner.room.Stats().Waiting == 1 })
			if n := owner.admitted.Load(); n != 0 {
				t.Errorf("%d admitted before the app holds the shard", n)
			}
			want := 0.0
			if end == "proposal" {
				want = 1
				owner.swap(1, 2, held(route.ReasonAcquiring))
				until(t, "it is refused, and waits there no more", func() bool {
					return metric(t, owner, "shardway_refused_total", "held") == 1 && owner.room.Stats().Waiting == 0
				})
				ingress.swap(1, 2, remote("owner", 1))
				until(t, "it waits at the owner again", func() bool { return owner.room.Stats().Waiting == 1 })
				owner.swap(1, 2, local(1))
			} else {
				owner.swap(1, 1, local(1))
			}
			if res, body := c.answer("POST"); res.StatusCode != http.StatusOK || body != "POST /x hi" {
				t.Errorf("%d %q", res.StatusCode, body)
			}
			if n := metric(t, owner, "shardway_refused_total", "held"); n != want {
				t.Errorf("refused %v times, want %v", n, want)
			}
		})
	}
}

// Forwarded requests beyond the limits of the owner's queue, by number or bytes, wait at their ingress
// while the owner's app acquires the shard. Once, they got 503 queue-full, although the ingress had
// room.
func TestForwardedRequestsBeyondQueueWaitAtIngress(t *testing.T) {
	const many = 6
	for bound, full := range map[string]queue.Options{"number": {Requests: 4}, "bytes": {Bytes: 40 << 10}} {
		t.Run(bound, func(t *testing.T) {
			ingress, owner := pair(t, webApp(t, echo), func(o *proxy.Options) {
				o.QueueWait = time.Minute
				if o.Node == "owner" {
					full.Wait = o.QueueWait
					o.Queue = queue.New(full)
				}
			})
			owner.swap(1, 1, held(route.ReasonAcquiring))
			var cs []*client
			for range many {
				c := ingress.dial()
				c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 8192\r\n\r\n%8192d", 1)
				cs = append(cs, c)
			}
			until(t, "the others wait where their clients are", func() bool {
				here, there := owner.room.Stats().Waiting, ingress.room.Stats().Waiting
				return here > 0 && there > 0 && here+there == many
			})
			if n := owner.admitted.Load(); n != 0 {
				t.Errorf("%d admitted before the app holds the shard", n)
			}
			owner.swap(1, 1, local(1))
			for i, c := range cs {
				if res, body := c.answer("POST"); res.StatusCode != http.StatusOK {
					t.Errorf("request %d: %d %q", i, res.StatusCode, body)
				}
			}
			if n := metric(t, owner, "shardway_refused_total", "busy"); n == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// An owner without a lease acquires nothing, so forwarded requests do not wait there. Requests that
// wait there when the lease expires return to their ingress. Once, after a restart of the whole
// cluster on a busy machine, each queued request occupied a connection to an owner without a lease,
// and each further request dialed another one with a handshake. That load prevented the nodes from
// getting leases, so more and more requests were queued.
func TestForwardedRequestsDoNotWaitForAcquireWithoutLease(t *testing.T) {
	for _, begins := range []bool{true, false} {
		t.Run(fmt.Sprintf("lease at first %v", begins), func(t *testing.T) {
			ingress, owner := pair(t, webApp(t, echo), func(o *proxy.Options) { o.QueueWait = time.Minute })
			owner.swap(1, 1, held(route.ReasonAcquiring))
			if !begins {
				owner.lease.Store(0)
			}
			c := ingress.dial()
			c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
			if begins {
				until(t, "it waits at the owner", func() bool { return owner.room.Stats().Waiting == 1 })
				owner.lease.Store(0)
			}
			until(t, "it is refused", func() bool { return metric(t, owner, "shardway_refused_total", "no-lease") > 0 })
			until(t, "it waits where its client is", func() bool {
				return owner.room.Stats().Waiting == 0 && ingress.room.Stats().Waiting == 1
			})
			owner.lease.Store(int64(time.Hour))
			until(t, "it waits at the owner again", func() bool { return owner.room.Stats().Waiting == 1 })
			owner.swap(1, 1, local(1))
			if res, body := c.answer("POST"); res.StatusCode != http.StatusOK || body != "POST /x hi" {
				t.Errorf("%d %q", res.StatusCode, body)
			}
		})
	}
}

// A request that times out while the app does not acquire its shard gets a response with the shard,
// the node and the error text of the app.
func TestWaitingRequestReportsAcquireError(t *testing.T) {
	for way, start := range ways() {
		for why, want := range map[string]string{"disk full": ": disk full", "": " in time"} {
			t.Run(way+want, func(t *testing.T) {
				front, owner := start(t, webApp(t, echo), func(o *proxy.Options) {
					o.QueueWait, o.AcquireError = 50*time.Millisecond, func(shardmap.Shard) string { return why }
				})
				owner.swap(1, 1, held(route.ReasonAcquiring))
				res, body := front.dial().get("/")
				wantStatus(t, res, body, http.StatusServiceUnavailable, "queue-timeout")
				if text := fmt.Sprintf("the app of node owner has not acquired shard %d in time", shardmap.ShardOf("k", shards)); !strings.Contains(body, text) || !strings.Contains(body, want+`"`) {
					t.Errorf("%s does not say %q", body, text+want)
				}
			})
		}
	}
}
