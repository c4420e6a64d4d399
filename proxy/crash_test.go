package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/simnet"
	"shardway/proxy"
	"shardway/proxy/poison"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// dying starts owners, one after the other. Each one except the last crashes after it has read a
// number of requests. The counters in killed count these requests.
func dying(t *testing.T, ingress *node, names []string, together int) (killed []*atomic.Int32) {
	t.Helper()
	for i, name := range names[:len(names)-1] {
		n, gone := new(atomic.Int32), make(chan struct{})
		killed = append(killed, n)
		addr := rawApp(t, func(_ net.Conn, r *bufio.Reader) {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if n.Add(1) == int32(together) {
				next := uint64(i + 2)
				ingress.swap(next, next, remote(names[i+1], next))
				close(gone)
			}
			<-gone
		})
		ingress.knows(name, &node{peer: addr})
	}
	return killed
}

// A request that may have crashed two nodes is not sent to a third one. Once, a GET crashed three
// owners in a row.
func TestPoisonIsFoundAcrossTwoNodes(t *testing.T) {
	told := make(chan poison.Crash, 4)
	n := newNode(t, "ingress", "", func(o *proxy.Options) {
		o.PeerCrashed = func(w poison.Crash) { told <- w }
		o.HashKey = func() []byte { return []byte("s") }
	})
	killed := dying(t, n, []string{"a", "b", "c", "d"}, 1)
	n.swap(1, 1, remote("a", 1))
	res, body := n.dial().get("/")
	wantStatus(t, res, body, 502, "peer-unreachable")
	if !strings.Contains(body, "may have run") {
		t.Errorf("body = %s", body)
	}
	if a, b, c := killed[0].Load(), killed[1].Load(), killed[2].Load(); a != 1 || b != 1 || c != 0 {
		t.Errorf("it went to a %d times, b %d, c %d; want once to two of them", a, b, c)
	}
	want := []poison.Implicated{{Shard: shardmap.ShardOf("k", shards), Hash: shardkey.Hash([]byte("s"), []byte("k"))}}
	nodes := map[string]bool{}
	for range 2 {
		w := <-told
		nodes[w.Node] = true
		if !slices.Equal(w.Keys, want) {
			t.Errorf("told %+v, want %v", w, want)
		}
	}
	if !nodes["a"] || !nodes["b"] {
		t.Errorf("told of %v, want a and b", nodes)
	}
}

// If many requests were in flight during a crash, none is implicated, and all are retried as usual.
func TestManyKeysAreNotImplicated(t *testing.T) {
	const many = poison.MaxImplicated + 1
	n := newNode(t, "ingress", "", func(o *proxy.Options) {
		o.PeerCrashed = func(w poison.Crash) { t.Errorf("told %+v", w) }
	})
	killed := dying(t, n, []string{"a", "b", "c"}, many)
	owner := newNode(t, "c", webApp(t, echo))
	owner.swap(9, 9, local(9))
	n.knows("c", owner)
	n.swap(1, 1, remote("a", 1))
	var cs []*client
	for i := range many {
		c := n.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", fmt.Sprint("k", i))
		cs = append(cs, c)
	}
	for _, c := range cs {
		if res, body := c.answer("GET"); res.StatusCode != 200 {
			t.Errorf("one of many: %s %s", res.Status, body)
		}
	}
	if a, b := killed[0].Load(), killed[1].Load(); a != many || b != many {
		t.Errorf("%d went to a and %d to b, want %d", a, b, many)
	}
}

// A request that is cancelled because its owner is unreachable and its shard has another owner does
// not count as a crash. Once, it counted, and the next crash failed the request.
func TestCancelledRequestsAreNotImplicated(t *testing.T) {
	n := newNode(t, "ingress", "", func(o *proxy.Options) { o.PeerCrashed = func(poison.Crash) {} })
	reached, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	n.knows("a", &node{peer: rawApp(t, func(_ net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err == nil {
			close(reached)
			<-over
		}
	})})
	killed := dying(t, n, []string{"b", "c"}, 1)
	owner := newNode(t, "c", webApp(t, echo))
	owner.swap(2, 2, local(2))
	n.knows("c", owner)
	n.swap(1, 1, remote("a", 1))
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	<-reached
	n.swap(1, 1, remote("b", 1))
	n.CancelForwarded(func(_ shardmap.Shard, node string) bool { return node == "a" })
	if res, body := c.answer("GET"); res.StatusCode != http.StatusOK {
		t.Errorf("answer = %s %s", res.Status, body)
	}
	if b := killed[0].Load(); b != 1 {
		t.Errorf("it went to b %d times, want once", b)
	}
}

// An app that crashes during a request has not crashed a node. The request is retried as usual, and
// its key is not reported.
func TestLocalAppIsNotReportedAsCrash(t *testing.T) {
	told := make(chan poison.Crash, 4)
	asked := new(atomic.Int32)
	n := newNode(t, "ingress", rawApp(t, func(_ net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err == nil {
			asked.Add(1)
		}
	}), func(o *proxy.Options) { o.PeerCrashed = func(w poison.Crash) { told <- w } })
	n.swap(1, 1, local(1))
	res, body := n.dial().get("/")
	wantStatus(t, res, body, 502, "upstream-broken")
	if got := asked.Load(); got != 3 {
		t.Errorf("the app was asked %d times, want 3", got)
	}
	dying(t, n, []string{"a", "b"}, 1)
	owner := newNode(t, "b", webApp(t, echo))
	owner.swap(2, 2, local(2))
	n.knows("b", owner)
	n.swap(2, 2, remote("a", 2))
	if res, body = n.dial().get("/"); res.StatusCode != http.StatusOK {
		t.Errorf("the next owner: %s %s", res.Status, body)
	}
	if w := <-told; w.Node != "a" { // earlier reports are delivered first
		t.Errorf("told of %+v, want a alone", w)
	}
}

// breaking is a node whose connections break after each request. say writes what the node sends before
// that.
func breaking(t *testing.T, sim *simnet.Net, id string, say func(conn net.Conn)) *node {
	t.Helper()
	h := sim.Host(id)
	l, err := h.Listen(":90")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err = http.ReadRequest(bufio.NewReader(conn)); err == nil {
				say(conn)
			}
			_ = conn.Close()
		}
	}()
	return &node{peer: h.Addr(90)}
}

// A request whose response has begun did not crash the node, and a request without a key belongs to no
// shard: neither is implicated.
func TestOnlyUnansweredRequestsOfKeysAreImplicated(t *testing.T) {
	preflight := "OPTIONS / HTTP/1.1\r\nHost: h\r\nOrigin: http://o\r\nAccess-Control-Request-Method: PUT\r\n\r\n"
	get := "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n"
	for name, c := range map[string]struct {
		request, said string
		told          int
	}{
		"unanswered":    {get, "", 1},
		"told to go on": {get, "HTTP/1.1 103 Early Hints\r\n\r\n", 1},
		"answered":      {get, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 0},
		"no key":        {preflight, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim, told := newSim(t), 0
				n := simNode(t, sim, "ingress", simple, func(o *proxy.Options) {
					o.PeerCrashed, o.DialUpstream = func(poison.Crash) { told++ }, nil
				})
				n.knows("a", breaking(t, sim, "a", func(conn net.Conn) { _, _ = io.WriteString(conn, c.said) }))
				n.swap(1, 1, remote("a", 1))
				client := n.dial()
				client.send("%s", c.request)
				res, body := client.answer("GET")
				for res.StatusCode == http.StatusEarlyHints { // for each attempt
					res, body = client.answer("GET")
				}
				if res.StatusCode != http.StatusBadGateway {
					t.Errorf("answer = %s %s", res.Status, body)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if told != c.told {
					t.Errorf("told %d times, want %d", told, c.told)
				}
				_ = client.Close()
			})
		})
	}
}

// Repeated broken connections of the same process count as one crash. A node that closes connections,
// for example because it restarts, gets the usual number of attempts.
func TestProcessCrashIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, asked, told := newSim(t), 0, 0
		n := simNode(t, sim, "ingress", simple, func(o *proxy.Options) { o.PeerCrashed = func(poison.Crash) { told++ } })
		n.knows("a", breaking(t, sim, "a", func(conn net.Conn) {
			if asked++; asked == 3 {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}))
		n.swap(1, 1, remote("a", 1))
		c := n.dial()
		if res, body := c.get("/"); res.StatusCode != http.StatusOK {
			t.Errorf("answer = %s %s", res.Status, body)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if asked != 3 || told != 1 {
			t.Errorf("it was asked %d times, and told of %d; want 3 and 1", asked, told)
		}
		_ = c.Close()
	})
}
