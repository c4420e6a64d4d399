package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"shardway/proxy"
)

// The requests of one shard are limited. Once, a key with hanging requests used half of the upstream
// connections, and its shard's share of the queue in addition, until their timeouts. Nothing rejected
// further requests earlier.
func TestRequestsOfOneShardAreLimited(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, hangingAt(t), func(o *proxy.Options) {
				o.MaxUpstreamConns, o.MaxShardConns, o.QueueWait = 16, 2, time.Minute
				o.MaxShardInflight = 3
			})
			for range 2 {
				front.dial().send("GET /hang HTTP/1.1\r\nHost: h\r\nX-Shard-Key: stuck\r\n\r\n")
			}
			until(t, "two run", func() bool { return owner.running.Load() == 2 })
			const get = "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: stuck\r\n\r\n"
			inLine := owner.dial() // a request of another node would wait for 100 ms only
			inLine.send(get)
			until(t, "one waits for a connection (--max-shard-conns)", func() bool { return owner.room.Stats().Waiting == 1 })
			beyond := make([]*client, 3)
			for i := range beyond {
				beyond[i] = front.dial()
				beyond[i].send(get)
			}
			for _, c := range beyond {
				res, _ := c.answer("GET")
				if got, want := fmt.Sprint(res.StatusCode, " ", res.Header.Get("Shardway-Error"), " ", res.Header.Get("Retry-After")), "503 shard-busy 1"; got != want {
					t.Errorf("beyond the limit: %s, want %s", got, want)
				}
			}
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			if res, body := c.answer("GET"); res.StatusCode != http.StatusOK {
				t.Errorf("another key: %s %s", res.Status, body)
			}
			owner.CancelShards(allShards, "draining")
			if res, body := inLine.answer("GET"); res.StatusCode != http.StatusOK {
				t.Errorf("the one in line: %s %s, want 200", res.Status, body)
			}
		})
	}
}

// Upgraded connections and event streams do not count towards the limit of their shard or key. Otherwise, a
// room with many WebSockets would lock out requests of its own key.
func TestStreamsDoNotCountTowardsInflightLimits(t *testing.T) {
	for name, limit := range map[string]func(*proxy.Options){
		"shard": func(o *proxy.Options) { o.MaxShardInflight = 1 },
		"key":   func(o *proxy.Options) { o.MaxKeyInflight = 1 },
	} {
		for way, start := range ways() {
			t.Run(name+"/"+way, func(t *testing.T) {
				front, owner := start(t, hangingAt(t), limit)
				for i, head := range []string{"GET /events HTTP/1.1\r\n", "GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n"} {
					c := front.dial()
					c.send("%sHost: h\r\nX-Shard-Key: k\r\n\r\n", head)
					if res, _ := c.head("GET"); res.StatusCode != []int{200, 101}[i] {
						t.Fatalf("stream = %s", res.Status)
					}
				}
				c := front.dial()
				c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				if res, body := c.answer("GET"); res.StatusCode != http.StatusOK {
					t.Errorf("beside streams: %s %s", res.Status, body)
				}
				owner.CancelShards(allShards, "draining")
			})
		}
	}
}

// A response counts until the node has read all of it from the app, not until its client has. The
// client may be slow, and buffered data in the node and the kernel occupies no place.
func TestCompleteResponseReleasesShardLimit(t *testing.T) {
	const size, piece = 16 << 20, 256 << 10
	large := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			echo(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for range size / piece {
			if _, err := w.Write(make([]byte, piece)); err != nil {
				return
			}
		}
	})
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, large, func(o *proxy.Options) { o.MaxShardInflight = 1 })
			other := front.dial()
			if res, _ := other.get("/"); res.StatusCode != http.StatusOK {
				t.Fatalf("alone: %s", res.Status)
			}
			c := front.dial()
			c.send("GET /large HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			_, body := c.head("GET")
			if res, _ := other.get("/"); res.Header.Get("Shardway-Error") != "shard-busy" {
				t.Fatalf("beside an answer that its client does not read: %s", res.Status)
			}
			read, err := io.CopyN(io.Discard, body, size-2*piece)
			if err != nil {
				t.Fatalf("after %d bytes: %v", read, err)
			}
			until(t, "the answer counts no more", func() bool {
				n, err := io.CopyN(io.Discard, body, piece/16) // less than a stream has in flight
				if read += n; err != nil {
					t.Fatalf("after %d bytes: %v", read, err)
				}
				res, _ := other.get("/")
				return res.StatusCode == http.StatusOK
			})
			if read == size {
				t.Error("it counted until the client had all of it")
			}
		})
	}
}

// The limit that is in force when the headers arrive applies. Requests that began before a limit was
// set are counted.
func TestMaxShardInflightAppliesToRunningRequests(t *testing.T) {
	n := newNode(t, "a", hangingAt(t), func(o *proxy.Options) { o.MaxShardConns = -1 })
	for range 2 {
		n.dial().send("GET /hang HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	}
	until(t, "two run", func() bool { return n.running.Load() == 2 })
	for most, want := range []int{1: 503, 2: 503, 3: 200, 4: 200} {
		if want == 0 {
			continue
		}
		n.Apply(proxy.Settings{MaxShardInflight: most})
		c := n.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		if res, body := c.answer("GET"); res.StatusCode != want {
			t.Errorf("with %s: %s %s, want %d", strconv.Itoa(most), res.Status, body, want)
		}
	}
	n.CancelShards(allShards, "draining")
}
