package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/keylimit"
	"shardway/shardmap"
)

// keyInShardOf returns another key of the same shard.
func keyInShardOf(key string) string {
	other := key + "'"
	for shardmap.ShardOf(other, shards) != shardmap.ShardOf(key, shards) {
		other += "'"
	}
	return other
}

// enabledLimits are the limits that use permits, and how a reload enables them.
var enabledLimits = []struct {
	name, code string
	prepare    func(o *proxy.Options)
	limited    proxy.Settings
}{
	{"key", "key-busy", func(*proxy.Options) {}, proxy.Settings{MaxKeyInflight: 1}},
	{"shard with a process per key", "shard-busy", func(o *proxy.Options) { limitShardOfProcesses(o, 0) }, proxy.Settings{MaxShardInflight: 1}},
}

// A reload enables a limit while requests run. No further request of their key runs until they have ended, and
// then one at a time, in the order of arrival.
func TestLimitCountsEarlierRequests(t *testing.T) {
	for _, kind := range enabledLimits {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				app, owner, others := turns(t, kind.prepare)
				all := []*client{owner.asks("GET", "/1", "k"), others[0].asks("POST", "/2", "k")}
				time.Sleep(500 * time.Millisecond)
				settings := kind.limited
				settings.ShardQueue = 8
				owner.Apply(settings)
				app.forgetHighest()
				all = append(all, owner.asks("GET", "/3", "k"), others[1].asks("POST", "/4", "k"))
				for _, c := range all {
					c.wantAnswer("of the key", 200, "")
				}
				if app.highest != 1 {
					t.Errorf("%d requests of the key ran at the same time after the limit was enabled, want 1", app.highest)
				}
				if got := app.took(); got[2] != "/3" || got[3] != "/4" {
					t.Errorf("order = %v", got)
				}
			})
		})
	}
}

// Without a queue, a request waits for the earlier requests, because they may belong to other keys. A further request of
// its key fails.
func TestRequestWaitsForEarlierRequestsWithoutQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, owner, others := turns(t)
		earlier := others[0].asks("GET", "/1", "k")
		owner.Apply(proxy.Settings{MaxKeyInflight: 1})
		other := owner.asks("GET", "/2", keyInShardOf("k"))
		same := owner.asks("GET", "/3", "k")
		owner.asks("GET", "/4", "k").wantAnswer("a second one of the key", 503, "key-busy")
		for _, c := range []*client{earlier, other, same} {
			c.wantAnswer("a request with a permit", 200, "")
		}
	})
}

// A request that waits for a connection while the limit is enabled runs in its turn.
func TestRequestThatWaitsForConnectionObeysNewLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, owner, _ := turns(t, func(o *proxy.Options) { o.MaxUpstreamConns, o.MaxShardConns, o.QueueWait = 2, -1, time.Minute })
		all := []*client{owner.asks("GET", "/1", "other"), owner.asks("GET", "/2", "another")}
		for _, path := range []string{"/3", "/4", "/5"} {
			all = append(all, owner.asks("GET", path, "k"))
		}
		owner.Apply(proxy.Settings{MaxKeyInflight: 1, ShardQueue: 8})
		for _, c := range all {
			c.wantAnswer("of two connections", 200, "")
		}
		if app.highest != 1 {
			t.Errorf("%d requests of one key at the same time, want 1", app.highest)
		}
	})
}

// An event stream that runs when the limit is enabled does not count.
func TestEventStreamDoesNotCountForNewLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", func(conn net.Conn, r *bufio.Reader) {
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				answer := "Content-Length: 0\r\n\r\n"
				if req.URL.Path == "/events" {
					answer = "Content-Type: text/event-stream\r\n\r\ndata: 1\n\n"
				}
				if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+answer); err != nil {
					return
				}
			}
		})
		stream := n.dial()
		stream.send("GET /events HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		time.Sleep(200 * time.Millisecond)
		n.Apply(proxy.Settings{MaxKeyInflight: 1})
		n.asks("GET", "/", "k").wantAnswer("beside an event stream", 200, "")
		_ = stream.Close()
	})
}

// enabledKeyLimits are reloads that limit the concurrent requests of a key to one.
var enabledKeyLimits = []struct {
	name        string
	before, now proxy.Settings
}{
	{"for all requests", proxy.Settings{}, proxy.Settings{KeyLimit: keylimit.Limit{Concurrent: 1}}},
	{
		"in addition to a rate",
		proxy.Settings{KeyLimit: keylimit.Limit{Interval: time.Millisecond, Burst: 100}},
		proxy.Settings{KeyLimit: keylimit.Limit{Interval: time.Millisecond, Burst: 100, Concurrent: 1}},
	},
	{
		"for a new route",
		proxy.Settings{},
		proxy.Settings{Routes: []proxy.Route{{Prefix: "/a", KeyLimit: &keylimit.Limit{Concurrent: 1}}}},
	},
	{
		"for a route with a limit of its own",
		proxy.Settings{KeyLimit: keylimit.Limit{Concurrent: 8}},
		proxy.Settings{KeyLimit: keylimit.Limit{Concurrent: 8}, Routes: []proxy.Route{{Prefix: "/a", KeyLimit: &keylimit.Limit{Concurrent: 1}}}},
	},
	{
		"for requests of a removed route",
		proxy.Settings{KeyLimit: keylimit.Limit{Concurrent: 1}, Routes: []proxy.Route{{Prefix: "/a", KeyLimit: &keylimit.Limit{}}}},
		proxy.Settings{KeyLimit: keylimit.Limit{Concurrent: 1}},
	},
}

// A reload limits the concurrent requests of a key while some run. The next request waits until they have ended, because
// they may belong to other keys. A further one exceeds the limit.
func TestKeyLimitCountsEarlierRequests(t *testing.T) {
	for _, reload := range enabledKeyLimits {
		t.Run(reload.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				app, owner, others := turns(t)
				owner.Apply(reload.before)
				earlier := []*client{owner.asks("GET", "/a/1", "k"), others[0].asks("POST", "/a/2", "k")}
				time.Sleep(500 * time.Millisecond)
				owner.Apply(reload.now)
				app.forgetHighest()
				other := others[1].asks("GET", "/a/3", keyInShardOf("k"))
				same := owner.asks("POST", "/a/4", "k")
				others[0].asks("GET", "/a/5", "k").wantAnswer("a second one of the key", 429, "rate-limited")
				for _, c := range append(earlier, other, same) {
					c.wantAnswer("a request within the limit", 200, "")
				}
				if app.highest != 1 {
					t.Errorf("%d requests of the key ran at the same time after the reload, want 1", app.highest)
				}
				time.Sleep(time.Second)
				owner.asks("GET", "/a/6", "k").wantAnswer("later", 200, "")
			})
		})
	}
}

// A request that waits for a connection during the reload takes a permit before it runs. It takes no second token.
func TestRequestThatWaitsForConnectionObeysNewKeyLimit(t *testing.T) {
	for _, reload := range enabledKeyLimits {
		t.Run(reload.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				app, owner, _ := turns(t, func(o *proxy.Options) { o.MaxUpstreamConns, o.MaxShardConns, o.QueueWait = 2, -1, time.Minute })
				owner.Apply(reload.before)
				all := []*client{owner.asks("GET", "/a/1", "other"), owner.asks("GET", "/a/2", "another")}
				for _, path := range []string{"/a/3", "/a/4", "/a/5"} {
					all = append(all, owner.asks("GET", path, "k"))
				}
				owner.Apply(reload.now)
				served := 0
				for _, c := range all {
					if res, _ := c.answer("GET"); res.StatusCode == 200 {
						served++
					} else if res.StatusCode != 429 {
						t.Errorf("status %s, want 200 or 429", res.Status)
					}
					_ = c.Close()
				}
				if app.highest != 1 || served < 3 {
					t.Errorf("%d requests of the key ran at the same time, %d requests were served, want 1 and at least 3", app.highest, served)
				}
			})
		})
	}
}

// A request with a path that the app may interpret differently does not run without the limit of the route.
func TestRequestWithAmbiguousPathObeysNewKeyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, owner, _ := turns(t, func(o *proxy.Options) { o.MaxUpstreamConns, o.QueueWait = 1, time.Minute })
		first, second := owner.asks("GET", "/a/1", "k"), owner.asks("GET", "/b/..;/a/2", "k")
		owner.Apply(proxy.Settings{Routes: []proxy.Route{{Prefix: "/a", KeyLimit: &keylimit.Limit{Concurrent: 1}}}})
		first.wantAnswer("before the reload", 200, "")
		second.wantAnswer("with an ambiguous path", 400, "bad-request")
		if got := app.took(); len(got) != 1 {
			t.Errorf("the app received %v", got)
		}
	})
}

// A reload that leaves the limits of keys as they are makes no request wait.
func TestReloadWithSameKeyLimitCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, owner, _ := turns(t)
		settings := proxy.Settings{KeyLimit: keylimit.Limit{Concurrent: 1}, Routes: []proxy.Route{{Prefix: "/a", KeyLimit: &keylimit.Limit{Concurrent: 1}}}}
		owner.Apply(settings)
		earlier := owner.asks("GET", "/a/1", "k")
		settings.Routes = append(settings.Routes, proxy.Route{Prefix: "/a/b", FirstByteTimeout: time.Hour}, proxy.Route{Prefix: "/c", KeyLimit: &keylimit.Limit{}})
		owner.Apply(settings)
		for _, path := range []string{"/a/2", "/b/3"} {
			sentAt := time.Now()
			owner.asks("GET", path, keyInShardOf("k")).wantAnswer("of another key", 200, "")
			if took := time.Since(sentAt); took > 1100*time.Millisecond {
				t.Errorf("%s took %v, want the second of the app", path, took)
			}
		}
		earlier.wantAnswer("before the reload", 200, "")
	})
}
