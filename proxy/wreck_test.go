package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"shardway/proxy"
	"shardway/shardmap"
)

// dying starts nodes, one owner after the other, each of which, but the last, ends with
// the first requests that it reads, so many at once; killed counts those.
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

// A GET went from one dead owner to the next, three in all. What may have ended two of
// them is not given to a third.
func TestPoisonMeetsTwoNodes(t *testing.T) {
	told := make(chan proxy.Wreck, 4)
	n := newNode(t, "ingress", "", func(o *proxy.Options) {
		o.Wrecked = func(w proxy.Wreck) { told <- w }
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
	want := []proxy.Implicated{{Shard: shardmap.Of("k", shards), Hash: proxy.KeyHash([]byte("s"), []byte("k"))}}
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

// Of many that were under way nobody can tell which it was: they go again as ever.
func TestManyKeysAreNotImplicated(t *testing.T) {
	const many = proxy.MaxImplicated + 1
	n := newNode(t, "ingress", "", func(o *proxy.Options) {
		o.Wrecked = func(w proxy.Wreck) { t.Errorf("told %+v", w) }
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

// What this node cuts, because an owner is out of reach and its shard has another one, did
// not break with a process: it counted as one that the request may have ended, so that the
// next one that died failed it.
func TestWhatIsCutHereEndedNobody(t *testing.T) {
	n := newNode(t, "ingress", "", func(o *proxy.Options) { o.Wrecked = func(proxy.Wreck) {} })
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
	n.Abandon(func(_ shardmap.Shard, node string) bool { return node == "a" })
	if res, body := c.answer("GET"); res.StatusCode != http.StatusOK {
		t.Errorf("answer = %s %s", res.Status, body)
	}
	if b := killed[0].Load(); b != 1 {
		t.Errorf("it went to b %d times, want once", b)
	}
}
