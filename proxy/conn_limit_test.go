package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/proxy"
)

// At --max-conns, the connections that have been idle longest are closed to make room, and no more
// than necessary. Once, idle connections up to the limit kept all new clients out.
func TestIdleClientsAreEvictedAtMaxConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", simple, func(o *proxy.Options) { o.MaxConns, o.QueueWait = 3, time.Hour })
		first, second, third := n.dial(), n.dial(), n.dial()
		for _, c := range []*client{third, second, first, second} { // third is idle longest, then first
			c.get("/")
			time.Sleep(time.Second)
		}
		first.send("GET /a HT") // no longer idle, although it is still registered as idle
		synctest.Wait()
		for i := range 2 {
			c, began := n.dial(), time.Now()
			if res, _ := c.get("/new"); res.StatusCode != 200 || time.Since(began) > time.Second {
				t.Errorf("newcomer %d: %v after %v", i, res.Status, time.Since(began))
			}
			time.Sleep(time.Second)
			if i == 0 {
				third.closed()
			}
		}
		second.closed()
		first.send("TP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		if res, body := first.answer("GET"); body != "GET /a " {
			t.Errorf("the one whose request had begun: %v %q", res.Status, body)
		}
		if got := metric(t, n, "shardway_shed_connections_total", "idle"); got < 2 {
			t.Errorf("%v connections were shed", got)
		}
		_ = first.Close()
	})
}

// A connection with a partly read request is not evicted. Once, it counted as idle and was selected,
// which made no room, and was closed after its request. New connections waited for as many rounds as
// there were such connections.
func TestPartlyReadHeadersAreNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simNode(t, newSim(t), "a", simple, func(o *proxy.Options) { o.MaxConns, o.HeaderTimeout = 4, time.Hour })
		busy := []*client{n.dial(), n.dial(), n.dial()}
		for _, c := range busy {
			c.get("/")
			c.send("GET /late HT")
			time.Sleep(time.Second)
		}
		idle := n.dial()
		idle.get("/")
		time.Sleep(time.Second)
		began, fifth := time.Now(), n.dial()
		if res, _ := fifth.get("/new"); res.StatusCode != 200 || time.Since(began) != 0 {
			t.Errorf("newcomer: %v after %v", res.Status, time.Since(began))
		}
		_ = fifth.Close()
		// One connection above the limit is accepted, and then checks for room.
		began = time.Now()
		sixth := n.dial()
		if res, _ := sixth.get("/new"); res.StatusCode != 200 {
			t.Errorf("newcomer: %v after %v", res.Status, time.Since(began))
		}
		idle.closed()
		for _, c := range busy {
			c.send("TP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			if _, body := c.answer("GET"); body != "GET /late " {
				t.Errorf("%q", body)
			}
			c.get("/again") // the connection still works
			_ = c.Close()
		}
		if got := metric(t, n, "shardway_shed_connections_total", "idle"); got != 1 {
			t.Errorf("%v connections were shed, want the idle one", got)
		}
	})
}

// If no connection is idle, the new one waits, no other connection is closed, and the log contains the
// reason.
func TestBusyClientsAreNotEvicted(t *testing.T) {
	said, release := new(lines), make(chan struct{})
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			<-release
		}
		echo(w, r)
	})
	n := newNode(t, "a", app, func(o *proxy.Options) { o.MaxConns, o.Log = 3, zerolog.New(said) })
	var open []*client
	for range 3 {
		c := n.dial()
		c.send("GET /busy HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		open = append(open, c)
	}
	until(t, "running", func() bool { return n.running.Load() == 3 })
	fourth := n.dial()
	fourth.send("GET /4 HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "said", func() bool { return said.has("accepting paused") })
	if got := metric(t, n, "shardway_shed_connections_total"); got != 0 {
		t.Errorf("%v connections were shed", got)
	}
	close(release)
	for _, c := range open {
		if res, _ := c.answer("GET"); res.StatusCode != 200 {
			t.Errorf("one of the first: %v", res.Status)
		}
	}
	if _, body := fourth.answer("GET"); body != "GET /4 " {
		t.Errorf("the one that waited: %q", body)
	}
}

// A connection whose client never begins the TLS handshake is idle as well.
func TestStalledHandshakesAreEvicted(t *testing.T) {
	n := nodeUnderTLS(t, webApp(t, echo), func(o *proxy.Options) { o.MaxConns, o.HeaderTimeout = 2, time.Hour })
	_, _ = n.dial(), n.dial()
	if res, _ := n.dialTLS().get("/"); res.StatusCode != 200 {
		t.Errorf("%v", res.Status)
	}
}

// Partly read headers share a memory limit, and beyond it the slowest requests are aborted. Once,
// headers that arrived byte by byte, each within its own limits, used 64 KiB per connection: 1 GiB for
// 16384 connections.
func TestPartlyReadHeadersShareMemoryLimit(t *testing.T) {
	const fit, all = 8, 20 // number of 8 KiB header sections that fit into 64 KiB
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.MaxHeaderBytesTotal, o.HeaderTimeout = fit*8<<10, time.Hour })
	var open []*client
	for i := range all {
		c := n.dial()
		c.send("GET /%d HTTP/1.1\r\nHost: h\r\nX-Sh", i)
		open = append(open, c)
		until(t, "read", func() bool {
			kept, shed := metric(t, n, "shardway_header_bytes"), metric(t, n, "shardway_shed_connections_total", "head")
			if kept > fit*8<<10 {
				t.Fatalf("%v bytes are kept", kept)
			}
			return kept/(8<<10)+shed == float64(i+1)
		})
	}
	for i, c := range open {
		if i >= all-fit {
			c.send("ard-Key: k\r\n\r\n")
		}
		res, body := c.answer("GET")
		if i < all-fit {
			wantStatus(t, res, body, 408, "request-timeout")
		} else if res.StatusCode != 200 {
			t.Errorf("head %d: %v %s", i, res.Status, body)
		}
	}
	// The memory of aborted requests is released, also if a client disconnects inside its headers.
	gone := n.dial()
	gone.send("GET / HTTP/1.1\r\nA: %s", strings.Repeat("a", 20<<10))
	until(t, "read", func() bool { return metric(t, n, "shardway_header_bytes") >= 20<<10 })
	_ = gone.Close()
	until(t, "forgotten", func() bool { return metric(t, n, "shardway_header_bytes") == 0 })
	// A body after headers that arrived in pieces still gets its full timeout.
	last := open[all-1]
	last.send("POST / HTTP/1.1\r\nHost: h\r\n")
	until(t, "read", func() bool { return metric(t, n, "shardway_header_bytes") > 0 })
	last.send("X-Shard-Key: k\r\nContent-Length: 2\r\n\r\n")
	until(t, "over", func() bool { return metric(t, n, "shardway_header_bytes") == 0 })
	last.send("hi")
	if _, body := last.answer("POST"); body != "POST / hi" {
		t.Errorf("body = %q", body)
	}
}
