package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// hangingAt is an app that never answers /hang, sends one event for /events, and accepts upgrades.
func hangingAt(t *testing.T) string {
	t.Helper()
	return rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			switch {
			case req.Header.Get("Upgrade") != "":
				_, _ = fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				_, _ = io.Copy(conn, r)
				return
			case req.URL.Path == "/hang":
				_, _ = io.Copy(io.Discard, r)
				return
			case req.URL.Path == "/events":
				_, _ = fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
				_, _ = io.Copy(io.Discard, r)
				return
			}
			_, _ = fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
}

// Hanging requests of one shard leave connections to other shards. Once, 64 hanging requests of one
// key used all 64 connections to the app, and no other key was served.
func TestStuckShardLeavesConnsToOthers(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			t.Parallel() // most of its time is spent waiting for the queue
			front, owner := start(t, hangingAt(t), func(o *proxy.Options) { o.MaxUpstreamConns, o.QueueWait = 8, 2*time.Second })
			for range 12 {
				front.dial().send("GET /hang HTTP/1.1\r\nHost: h\r\nX-Shard-Key: stuck\r\n\r\n")
			}
			until(t, "the shard has its share", func() bool { return owner.running.Load() == 4 })
			if res, body := front.dial().get("/"); res.StatusCode != http.StatusOK {
				t.Errorf("beside a stuck key: %s %s", res.Status, body)
			}
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: stuck\r\n\r\n")
			res, body := c.answer("GET")
			wantStatus(t, res, body, 503, "upstream-busy")
			if n := owner.running.Load(); n != 4 {
				t.Errorf("%d of the stuck shard run, want 4", n)
			}
			owner.CancelShards(allShards, "draining")
		})
	}
}

// Tunnels and event streams do not use up the upstream connections for requests. Once, they did, and
// with enough of them no request was served.
func TestStreamsLeaveConnsToRequests(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, hangingAt(t), func(o *proxy.Options) { o.MaxUpstreamConns, o.MaxStreams = 1, 4 })
			upgrade := func() (*reply, *client) {
				c := front.dial()
				c.send("GET /ws HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				res, _ := c.head("GET")
				return res, c
			}
			for range 2 {
				if res, _ := upgrade(); res.StatusCode != http.StatusSwitchingProtocols {
					t.Fatalf("upgrade = %s", res.Status)
				}
				events := front.dial()
				events.send("GET /events HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				if res, _ := events.head("GET"); res.StatusCode != http.StatusOK {
					t.Fatalf("events = %s", res.Status)
				}
			}
			if res, body := front.dial().get("/"); res.StatusCode != http.StatusOK {
				t.Errorf("beside streams: %s %s", res.Status, body)
			}
			res, _ := upgrade()
			if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Shardway-Error") != "upstream-busy" {
				t.Errorf("the fifth stream = %s %s, want 503 upstream-busy", res.Status, res.Header.Get("Shardway-Error"))
			}
			owner.CancelShards(allShards, "draining")
			until(t, "a stream has ended", func() bool {
				res, _ := upgrade()
				return res.StatusCode == http.StatusSwitchingProtocols
			})
		})
	}
}

// A response that takes long counts as a stream as well.
func TestLongResponseLeavesConnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", func(conn net.Conn, r *bufio.Reader) {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
			for strings.HasPrefix(req.URL.Path, "/long") {
				time.Sleep(time.Second)
				if _, err := fmt.Fprint(conn, "1\r\nx\r\n"); err != nil {
					return
				}
			}
			_, _ = fmt.Fprint(conn, "0\r\n\r\n")
		}, func(o *proxy.Options) { o.MaxUpstreamConns, o.QueueWait = 1, time.Minute })
		long := n.dial()
		long.send("GET /long HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		long.head("GET")
		began := time.Now()
		c := n.dial()
		if res, _ := c.get("/"); res.StatusCode != http.StatusOK {
			t.Errorf("beside a long answer: %s", res.Status)
		}
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("served after %v, want when the answer has gone on for 10s", took)
		}
		_ = long.Close()
		_ = c.Close()
		time.Sleep(10 * time.Second) // until the app has received it
	})
}

// Streams beyond --max-streams count as requests towards the connection limit, so that the total is
// limited.
func TestStreamsBeyondMaxStreamsKeepConns(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, hangingAt(t), func(o *proxy.Options) {
				o.MaxUpstreamConns, o.MaxShardConns, o.MaxStreams, o.QueueWait = 2, 2, 1, 300*time.Millisecond
			})
			for range 3 {
				events := front.dial()
				events.send("GET /events HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				if res, _ := events.head("GET"); res.StatusCode != http.StatusOK {
					t.Fatalf("events = %s", res.Status)
				}
			}
			res, body := front.dial().get("/")
			wantStatus(t, res, body, 503, "upstream-busy")
			owner.CancelShards(allShards, "draining")
		})
	}
}
