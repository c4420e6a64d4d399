package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"shardway/shardmap"
)

// onShards returns keys of two different shards.
func onShards() (one, other string) {
	first := shardmap.ShardOfBytes([]byte("k"), shards)
	for other = "other"; shardmap.ShardOfBytes([]byte(other), shards) == first; {
		other += "."
	}
	return "k", other
}

// warm answers this number of requests at the same time, so that the pool has as many idle connections
// to the app.
func warm(n *node, many int, ask func(c *client), free chan<- struct{}) {
	n.t.Helper()
	all := make([]*client, many)
	for i := range all {
		all[i] = n.dial()
		ask(all[i])
	}
	for range all {
		free <- struct{}{}
	}
	for _, c := range all {
		c.answer("GET")
	}
}

// overlapped ends a connection right after its run was cancelled, before the cancelling goroutine
// closes its sockets. Then other clients connect and must get responses. It returns false if the runs
// were visited in another order, so that the case did not occur.
func overlapped(t *testing.T) (shown bool) {
	t.Helper()
	end, free := make(chan struct{}), make(chan struct{})
	arrived := make(chan struct{}, 16) // larger than the number of requests
	n := newNode(t, "a", webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			_, _ = io.WriteString(w, "first")
			_ = http.NewResponseController(w).Flush()
			<-end
			return
		}
		arrived <- struct{}{}
		<-free
	}))
	key, other := onShards()
	ask := func(c *client) {
		c.send("GET /late HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", other)
		<-arrived
	}
	warm(n, 10, ask, free) // a request that waits for an upstream connection prevents the reuse of its client object
	cut, late := n.dial(), n.dial()
	cut.send("GET /cut HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nConnection: close\r\n\r\n", key)
	_, body := cut.head("GET")
	if _, err := io.ReadFull(body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	ask(late)
	next := make([]*client, 8)
	met := false
	n.CancelShards(func(s shardmap.Shard) bool {
		switch {
		case s == shardmap.ShardOfBytes([]byte(key), shards):
			met = true
			return true
		case met && next[0] == nil: // the first run is cancelled, and its connection not yet closed
			shown = true
			close(end)
			_, _ = io.Copy(io.Discard, body)
			_ = cut.Close()
			until(t, "the cut request is over", func() bool { return n.running.Load() == 1 })
			for i := range next {
				next[i] = n.dial()
				ask(next[i])
			}
		}
		return false
	}, "draining")
	if !shown {
		close(end)
	}
	close(free)
	for _, c := range next {
		if c == nil {
			continue
		}
		if res, _ := c.answer("GET"); res.StatusCode != http.StatusOK {
			t.Errorf("status %d of a request that nobody cut", res.StatusCode)
		}
	}
	return shown
}

// Cancelling a run closes its connections a moment later. A connection that reuses the memory of the
// cancelled one must not be closed.
func TestCancelNeverAffectsNextConn(t *testing.T) {
	shown := 0
	for range 40 {
		if overlapped(t) {
			shown++
		}
		if shown == 4 {
			return
		}
	}
	t.Errorf("the runs were cut in the right order %d times of 40: it shows nothing", shown)
}

// The client object of a connection that was upgraded, carried events, or may be a resumable WebSocket
// is not reused, because more than Server.conns refers to it.
func TestMemoryOfEscapedClientIsKept(t *testing.T) {
	n := newNode(t, "a", rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		head, err := readHead(r)
		if err != nil {
			return
		}
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		switch {
		case strings.Contains(head, "/upgrade "):
			answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n"
		case strings.Contains(head, "/events "):
			answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
		}
		if _, err = io.WriteString(conn, answer); err == nil {
			_, _ = r.ReadByte() // until the end of the connection
		}
	}))
	const get = " HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n"
	for what, c := range map[string]struct {
		request string
		shared  bool
	}{
		"a plain request":                       {"GET /plain" + get + "\r\n", false},
		"an upgrade":                            {"GET /upgrade" + get + "Connection: Upgrade\r\nUpgrade: other\r\n\r\n", true},
		"an event stream":                       {"GET /events" + get + "\r\n", true},
		"a WebSocket that the app did not want": {socketRequest, true},
	} {
		client := n.dial()
		client.send("%s", c.request)
		client.head("GET")
		answer := n.Shared()
		_ = client.Close()
		shared := false
		until(t, "the connection is over", func() (over bool) {
			shared, over = answer()
			return over
		})
		if shared != c.shared {
			t.Errorf("%s: shared %v, want %v", what, shared, c.shared)
		}
	}
}
