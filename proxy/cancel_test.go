package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// hanging starts an app that never responds. Each request that it receives is sent on seen.
func hanging(t *testing.T) (addr string, seen chan *http.Request) {
	t.Helper()
	seen = make(chan *http.Request, 16)
	return rawApp(t, func(_ net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			seen <- req
		}
	}), seen
}

func allShards(shardmap.Shard) bool { return true }

func TestCancelBeforeResponseIs502(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr, seen := hanging(t)
			front, owner := start(t, addr)
			for _, head := range []string{"GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nContent-Length: 2\r\n", "POST / HTTP/1.1\r\nContent-Length: 200000\r\n"} {
				c := front.dial()
				c.send("%sHost: h\r\nX-Shard-Key: k\r\n\r\nxx", head)
				<-seen
				if n := owner.CancelShards(func(s shardmap.Shard) bool { return s != shardmap.ShardOf("k", shards) }, "draining"); n != 0 {
					t.Errorf("cut %d of other shards", n)
				}
				if n := owner.CancelShards(allShards, "draining"); n != 1 {
					t.Errorf("cut %d, want 1", n)
				}
				until(t, "released", func() bool { return owner.running.Load() == 0 })
				res, body := c.answer("GET")
				wantStatus(t, res, body, 502, "shard-moved")
			}
		})
	}
}

func TestCancelWithinResponseAbortsConn(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "first")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}))
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			_, half := c.head("GET")
			if _, err := io.ReadFull(half, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			if n := owner.CancelShards(allShards, "draining"); n != 1 {
				t.Errorf("cut %d, want 1", n)
			}
			if _, err := io.ReadAll(half); err == nil {
				t.Error("the answer looks whole")
			}
			until(t, "released", func() bool { return owner.running.Load() == 0 })
		})
	}
}

// A client that does not read must not delay the release of a shard.
func TestCancelReachesRequestBlockedOnClient(t *testing.T) {
	n := newNode(t, "a", webApp(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "running", func() bool { return n.running.Load() == 1 })
	if _, err := c.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // until the socket buffers are full
	n.CancelShards(allShards, "draining")
	until(t, "released", func() bool { return n.running.Load() == 0 })
}

func TestCancelUpstreamRetriesRepeatableRequests(t *testing.T) {
	addr, seen := hanging(t)
	n := newNode(t, "a", addr)
	get, post := n.dial(), n.dial()
	get.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	post.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	<-seen
	<-seen
	n.refuse.Store(int32(route.RefusedNoLease))
	if cut := n.CancelUpstream("lease"); cut != 2 {
		t.Errorf("cut %d, want 2", cut)
	}
	res, body := post.answer("POST")
	wantStatus(t, res, body, 502, "upstream-broken")
	until(t, "released", func() bool { return n.running.Load() == 0 })
	until(t, "the GET waits", func() bool { return n.room.Stats().Waiting == 1 })
	n.refuse.Store(0)
	n.swap(1, 1, local(1))
	if req := <-seen; req.Method != "GET" {
		t.Errorf("%s came again", req.Method)
	}
	n.CancelUpstream("end")
}

func TestCancelForwardedRetriesOrReportsMayHaveRun(t *testing.T) {
	addr, seen := hanging(t)
	ingress, _ := pair(t, addr)
	second := newNode(t, "second", webApp(t, echo))
	ingress.knows("second", second)
	get, post := ingress.dial(), ingress.dial()
	get.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	post.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	<-seen
	<-seen
	second.swap(2, 2, local(2))
	ingress.swap(2, 2, remote("second", 2))
	if n := ingress.CancelForwarded(func(_ shardmap.Shard, node string) bool { return node == "nobody" }); n != 0 {
		t.Errorf("dropped %d of another node", n)
	}
	if n := ingress.CancelForwarded(func(s shardmap.Shard, node string) bool { return node == "owner" && s == shardmap.ShardOf("k", shards) }); n != 2 {
		t.Errorf("dropped %d, want 2", n)
	}
	if res, body := get.answer("GET"); body != "GET /x " || res.Header.Get("Saw-Shardway-Node") != "second" {
		t.Errorf("GET = %v %q", res.Status, body)
	}
	res, body := post.answer("POST")
	wantStatus(t, res, body, 502, "peer-unreachable")
	if !strings.Contains(body, "may have run") {
		t.Errorf("body = %s", body)
	}
}

func TestClientDisconnectCancelsRequest(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			var gone atomic.Int32
			seen := make(chan struct{}, 1)
			front, owner := start(t, webApp(t, func(_ http.ResponseWriter, r *http.Request) {
				seen <- struct{}{}
				<-r.Context().Done()
				gone.Add(1)
			}))
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			<-seen
			_ = c.Close()
			until(t, "aborted", func() bool { return gone.Load() == 1 && owner.running.Load() == 0 })
		})
	}
}

func TestShutdownFinishesRequestsAndClosesIdleConns(t *testing.T) {
	go1 := make(chan struct{})
	n := newNode(t, "a", webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-go1
		}
		echo(w, r)
	}))
	idle, busy := n.dial(), n.dial()
	idle.get("/")
	busy.send("GET /slow HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "running", func() bool { return n.running.Load() == 1 })
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		ended <- n.Shutdown(ctx)
	}()
	idle.closed()
	close(go1)
	res, body := busy.answer("GET")
	if body != "GET /slow " || !res.Close {
		t.Errorf("answer = %q, close %v", body, res.Close)
	}
	busy.closed()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDrainingResponsesCloseConns(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	idle, c := n.dial(), n.dial()
	idle.get("/")
	n.SetDraining(true)
	if res, _ := c.get("/"); !res.Close {
		t.Error("the answer says nothing of closing")
	}
	c.closed()
	if res, _ := n.dial().get("/"); res.StatusCode != 200 || !res.Close {
		t.Errorf("new connection: %v", res.Status)
	}
	idle.closed() // closed after it has been idle for a second
}

func TestUnresponsiveAppTimesOut(t *testing.T) {
	addr, seen := hanging(t)
	n := newNode(t, "a", addr, func(o *proxy.Options) { o.FirstByteTimeout = 100 * time.Millisecond })
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	<-seen
	res, body := c.answer("GET")
	wantStatus(t, res, body, 504, "upstream-timeout")
}
