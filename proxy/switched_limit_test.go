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

// switchedLimits are the limits that count places, and how a reload switches them on.
var switchedLimits = []struct {
	name, code string
	prepare    func(o *proxy.Options)
	limited    proxy.Settings
}{
	{"key", "key-busy", func(*proxy.Options) {}, proxy.Settings{MaxKeyInflight: 1}},
	{"shard with a process per key", "shard-busy", func(o *proxy.Options) { limitShardOfProcesses(o, 0) }, proxy.Settings{MaxShardInflight: 1}},
}

// A reload switches a limit on while requests run. No further request of their key runs until they have ended, and
// then one at a time, in the order of arrival.
func TestLimitCountsEarlierRequests(t *testing.T) {
	for _, kind := range switchedLimits {
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
					t.Errorf("%d requests of the key ran at the same time after the limit was switched on, want 1", app.highest)
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
			c.wantAnswer("a request with a place", 200, "")
		}
	})
}

// A request that waits for a connection while the limit is switched on runs in its turn.
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

// An event stream that runs when the limit is switched on does not count.
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
