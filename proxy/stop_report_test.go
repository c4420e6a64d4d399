package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/poison"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// hangs is an app that never responds.
func hangs(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }

// withStoppingNode runs f with a client of an ingress. Behind it are a, which stops by plan during a
// request, b, which takes over its shards, and c.
func withStoppingNode(t *testing.T, b func(net.Conn, *bufio.Reader), f func(nodes map[string]*node, c *client), change ...func(id string, o *proxy.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		nodes := map[string]*node{}
		for name, app := range map[string]func(net.Conn, *bufio.Reader){"ingress": simple, "a": hangs, "b": b, "c": simple} {
			nodes[name] = simNode(t, sim, name, app, func(o *proxy.Options) {
				o.QueueWait = time.Minute
				o.PeerCrashed = func(poison.Crash) {}
				o.HashKey = func() []byte { return []byte("s") }
				for _, more := range change {
					more(name, o)
				}
			})
		}
		for name, n := range nodes {
			nodes["ingress"].knows(name, n)
		}
		nodes["ingress"].swap(1, 1, remote("a", 1))
		c := nodes["ingress"].dial()
		f(nodes, c)
		_ = c.Close()
	})
}

// The stop report of a node is not taken for one of its next process. Once, a node that restarted by
// plan left a stop report on each idle stream. Each report counted as a refusal by the next process
// and cost a GET a back-off. With some fifty streams, the GET waited until its timeout.
func TestStopReportIsNotTakenForNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		ingress, a := simNode(t, sim, "ingress", simple), simNode(t, sim, "a", simple)
		ingress.knows("a", a)
		ingress.swap(1, 1, remote("a", 1))
		a.swap(1, 1, local(1))
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				c := ingress.dial()
				c.send("GET /slow HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: close\r\n\r\n")
				_, _ = c.answer("GET")
				_ = c.Close()
			})
		}
		all.Wait()
		a.ClosePeers()
		next := simNode(t, sim, "next a", simple)
		next.swap(1, 1, local(1))
		ingress.knows("a", next)

		before := ingress.room.Stats().Entered
		c := ingress.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		if res, body := c.answer("GET"); res.StatusCode != http.StatusOK || ingress.room.Stats().Entered != before {
			t.Errorf("answer = %s %s, waited: %v", res.Status, body, ingress.room.Stats().Entered != before)
		}
		_ = c.Close()
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// stops shuts the node down by plan, without time for running requests: they are cancelled.
func (n *node) stops() {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	cancel()
	if err := n.Shutdown(ctx); err == nil {
		n.t.Errorf("%s had nothing to cut", n.id)
	}
}

// A planned stop does not count as a crash. Once, a GET that was cancelled by a stopping node and then
// hit a killed node was considered the cause of both, and failed.
func TestCancelledRequestDoesNotCountAsCrash(t *testing.T) {
	withStoppingNode(t, hangs, func(nodes map[string]*node, c *client) {
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		synctest.Wait()
		nodes["a"].stops()
		nodes["b"].swap(2, 2, local(2))
		nodes["ingress"].swap(2, 2, remote("b", 2))
		time.Sleep(time.Second)
		if n := nodes["b"].admitted.Load(); n != 1 {
			t.Fatalf("it ran at b %d times, want once", n)
		}
		nodes["b"].host.Crash()
		nodes["c"].swap(3, 3, local(3))
		nodes["ingress"].swap(3, 3, remote("c", 3))
		if res, body := c.answer("GET"); res.StatusCode != http.StatusOK {
			t.Errorf("answer = %s %s", res.Status, body)
		}
	})
}

// A request that may have run is not sent again unless it is safe.
func TestPostCancelledByStoppingNodeMayHaveRun(t *testing.T) {
	withStoppingNode(t, simple, func(nodes map[string]*node, c *client) {
		c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
		synctest.Wait()
		nodes["a"].stops()
		res, body := c.answer("POST")
		wantStatus(t, res, body, http.StatusBadGateway, "peer-unreachable")
		if !strings.Contains(body, "may have run") {
			t.Errorf("body = %s", body)
		}
	})
}

// A POST that waits at a stopping node is sent again. Once, it got the response that it may have run.
func TestPostWaitingAtStoppingNodeIsRetried(t *testing.T) {
	withStoppingNode(t, simple, func(nodes map[string]*node, c *client) {
		nodes["a"].swap(5, 5, held(route.ReasonAcquiring)) // a stopped node's map is not waited for
		c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
		synctest.Wait()
		if n := nodes["a"].room.Stats().Waiting; n != 1 {
			t.Fatalf("%d wait at a, want it to", n)
		}
		nodes["a"].stops()
		nodes["b"].swap(2, 2, local(2))
		nodes["ingress"].swap(2, 2, remote("b", 2))
		if res, body := c.answer("POST"); res.StatusCode != http.StatusOK || body != "POST / hi" {
			t.Errorf("answer = %s %s", res.Status, body)
		}
	})
}

// A PUT that broke at the app of a stopping node may have run. Once, it waited for the app when the
// node stopped. The stop report said that it had not run, and it ran again at another owner.
func TestPutBrokenAtStoppingNodeMayHaveRun(t *testing.T) {
	withStoppingNode(t, simple, func(nodes map[string]*node, c *client) {
		a := nodes["a"]
		c.send("PUT / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
		synctest.Wait()
		a.swap(1, 1, held(route.ReasonAcquiring))
		if n := a.CancelUpstream("lease lost"); n != 1 {
			t.Fatalf("%d ran at a, want one", n)
		}
		synctest.Wait()
		if n := a.room.Stats().Waiting; n != 1 {
			t.Fatalf("%d wait at a, want it to", n)
		}
		a.stops()
		nodes["b"].swap(2, 2, local(2))
		nodes["ingress"].swap(2, 2, remote("b", 2))
		wantRanOnce(t, nodes, c, "PUT")
	})
}

// A POST that failed at the app of a stopping node may have run. Once, the node stopped before it
// reported the failure of the app, and the stop report said that the request had not run.
func TestPostFailedAtStoppingNodeMayHaveRun(t *testing.T) {
	withStoppingNode(t, simple, func(nodes map[string]*node, c *client) {
		a, over := nodes["a"], make(chan struct{})
		released := a.release
		a.release = func() { // the handler has returned, and its response is pending
			released()
			go func() {
				defer close(over)
				a.stops()
			}()
			synctest.Wait()
		}
		c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
		<-over
		nodes["b"].swap(2, 2, local(2))
		nodes["ingress"].swap(2, 2, remote("b", 2))
		wantRanOnce(t, nodes, c, "POST")
	}, func(id string, o *proxy.Options) {
		if id == "a" {
			o.Handler = func(*fasthttp.RequestCtx) { panic("the app fails") }
		}
	})
}

// wantRanOnce expects a response that the request may have run at a, and that b does not run it.
func wantRanOnce(t *testing.T, nodes map[string]*node, c *client, method string) {
	t.Helper()
	res, body := c.answer(method)
	wantStatus(t, res, body, http.StatusBadGateway, "peer-unreachable")
	if !strings.Contains(body, "may have run") || nodes["b"].admitted.Load() != 0 {
		t.Errorf("body = %s, and it ran at b %d times", body, nodes["b"].admitted.Load())
	}
}

// A stream is closed after a stop report, because a later request on it would get no response.
func TestStopReportClosesStream(t *testing.T) {
	for name, tt := range map[string]struct {
		route  func(shardmap.Shard) route.Route
		status int
	}{"waits": {held(route.ReasonAcquiring), http.StatusMisdirectedRequest}, "runs": {local(1), http.StatusBadGateway}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := simNode(t, newSim(t), "a", hangs)
				n.swap(1, 1, tt.route)
				c := n.stream()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 1\r\nContent-Length: 0\r\n\r\n")
				synctest.Wait()
				n.stops()
				if res, body := c.answer("POST"); res.StatusCode != tt.status || !res.Close || res.Header.Get("Shardway-Map") != "0 0" {
					t.Errorf("answer = %s, close %v, %v %s", res.Status, res.Close, res.Header, body)
				}
				_ = c.Close()
			})
		})
	}
}

// A peer that does not read responses does not delay a stop.
func TestStopDoesNotWaitForStalledPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simNode(t, newSim(t), "a", simple)
		n.swap(1, 1, remote("b", 1)) // all requests are refused
		c := n.stream()
		over := make(chan struct{})
		go func() {
			defer close(over)
			request := []byte("GET / HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 1\r\n\r\n")
			for range 1 << 16 {
				if _, err := c.Write(request); err != nil {
					return
				}
			}
			t.Error("all was taken, and no answer")
		}()
		synctest.Wait()
		began := time.Now()
		n.stops()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %v", took)
		}
		<-over
		_ = c.Close()
	})
}

// A response in progress is truncated when its node stops. Its body contains no stop report.
func TestTruncatedResponseHasNoStopReport(t *testing.T) {
	n := newNode(t, "a", rawApp(t, func(c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\nhalf")
			hangs(c, r)
		}
	}))
	c := n.stream()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 1\r\n\r\n")
	res, body := c.head("GET")
	half := make([]byte, 4)
	if _, err := io.ReadFull(body, half); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("answer = %s %q, %v", res.Status, half, err)
	}
	n.stops()
	if rest, err := io.ReadAll(body); len(rest) > 0 || err == nil {
		t.Errorf("after the half came %q, %v", rest, err)
	}
}

// A request that reaches an idle stream while its node closes it has not run. Once, the node did not
// report this, and a POST got the response that it may have run.
func TestIdleStreamEndsWithStopReport(t *testing.T) {
	for name, end := range map[string]func(*node){
		"shutdown": func(n *node) { n.stops() },
		"dismissed": func(n *node) {
			n.ClosePeers()
			late := n.stream() // a client that connects after the stop
			late.send("GET / HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 1\r\n\r\n")
			if res, _ := late.answer("GET"); res.StatusCode != http.StatusMisdirectedRequest || res.Header.Get("Shardway-Refused") != "ended" {
				n.t.Errorf("a later stream: %s %v", res.Status, res.Header)
			}
		},
		"idle": func(n *node) {
			if err := n.Shutdown(n.t.Context()); err != nil {
				n.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "a", webApp(t, echo))
			c := n.stream()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 1\r\n\r\n")
			if res, body := c.answer("GET"); res.StatusCode != http.StatusOK {
				t.Fatalf("answer = %s %s", res.Status, body)
			}
			end(n)
			res, _ := c.answer("POST")
			if got := res.Header.Get("Shardway-Refused"); res.StatusCode != http.StatusMisdirectedRequest || got != "ended" || !res.Close {
				t.Errorf("the last word is %s %q, close %v", res.Status, got, res.Close)
			}
			c.closed()
		})
	}
}
