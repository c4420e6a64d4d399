package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// unanswering returns an app that reads requests and never responds. It sends each request on seen.
func unanswering(seen chan<- string) func(net.Conn, *bufio.Reader) {
	return func(_ net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			seen <- req.Method
		}
	}
}

// moveTo begins a planned move at these nodes, cancels the running requests at drain-timeout, and
// commits the next node as the owner.
func moveTo(from, next *node, epoch uint64, others ...*node) {
	all := append([]*node{from}, others...)
	for _, n := range all {
		n.swap(epoch-1, epoch, held(route.ReasonMoving))
	}
	time.Sleep(5 * time.Second)
	from.CancelShards(allShards, "draining")
	time.Sleep(time.Second)
	next.swap(epoch, epoch, local(epoch))
	for _, n := range all {
		n.swap(epoch, epoch, remote(next.id, epoch))
	}
}

// A long poll is sent to the next owner when its shard moves. Once, it got 502 "shard-moved", although
// its method permits a retry.
func TestLongPollIsSentToTheNextOwner(t *testing.T) {
	for _, local := range []bool{true, false} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT"} {
			t.Run(fmt.Sprint(method, " local ", local), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sim := newSim(t)
					seen := make(chan string, 100)
					owner := simNode(t, sim, "owner", unanswering(seen))
					next := simNode(t, sim, "next", simple)
					ingress := simNode(t, sim, "ingress", simple)
					for _, n := range []*node{owner, ingress} {
						n.knows("owner", owner)
						n.knows("next", next)
					}
					ingress.swap(1, 1, remote("owner", 1))
					front := ingress
					if local {
						front = owner
					}
					const many = 50 // far more than the retry budget permits
					var cs []*client
					for range many {
						c := front.dial()
						c.send("%s /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", method)
						<-seen
						cs = append(cs, c)
					}
					moveTo(owner, next, 2, ingress)
					for _, c := range cs {
						switch res, body := c.answer(method); {
						case method == "POST", method == "PUT":
							wantStatus(t, res, body, 502, "shard-moved")
						case method == "HEAD":
							wantStatus(t, res, body, 200, "")
						case res.StatusCode != 200 || body != method+" /x ":
							t.Errorf("%v %q, want the next owner's response", res.Status, body)
						}
						_ = c.Close()
					}
					if n := metric(t, owner, "shardway_retries_total", "moved"); (n == many) != (method != "POST" && method != "PUT") {
						t.Errorf("%v counted as sent again because their shards moved", n)
					}
				})
			})
		}
	}
}

// A long poll is sent to up to two further owners. After that, its client gets an error response.
func TestLongPollIsSentToAtMostTwoFurtherOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		seen := make(chan string, 1)
		ingress := simNode(t, sim, "ingress", simple)
		var owners []*node
		for _, id := range []string{"a", "b", "c", "d"} {
			n := simNode(t, sim, id, unanswering(seen))
			ingress.knows(id, n)
			owners = append(owners, n)
		}
		ingress.swap(1, 1, remote("a", 1))
		c := ingress.dial()
		c.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		for i := range 3 {
			<-seen
			moveTo(owners[i], owners[i+1], uint64(i+2), ingress)
		}
		res, body := c.answer("GET")
		wantStatus(t, res, body, 502, "shard-moved")
		_ = c.Close()
	})
}

// A long poll waits for the next owner for up to the full queue-wait, even if it had waited before its
// app received it.
func TestLongPollGetsFullQueueWaitForNextOwner(t *testing.T) {
	for _, local := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			sim := newSim(t)
			seen := make(chan string, 1)
			owner := simNode(t, sim, "owner", unanswering(seen))
			next := simNode(t, sim, "next", simple)
			ingress := simNode(t, sim, "ingress", simple)
			for _, n := range []*node{owner, ingress} {
				n.knows("owner", owner)
				n.knows("next", next)
			}
			ingress.swap(1, 1, remote("owner", 1))
			front := ingress
			if local {
				front = owner
			}
			dest := front.Table().Route(shard(0))
			front.swap(1, 2, held(route.ReasonMoving))
			c := front.dial()
			c.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			time.Sleep(time.Second)
			if local {
				front.swap(2, 2, same(dest))
			} else {
				owner.swap(2, 2, same(&route.Route{Kind: route.Local, Epoch: 1}))
				front.swap(2, 2, same(dest))
			}
			<-seen
			time.Sleep(time.Minute)
			moveTo(owner, next, 4, ingress)
			if res, body := c.answer("GET"); res.StatusCode != 200 || body != "GET /x " {
				t.Errorf("local %v: %v %q", local, res.Status, body)
			}
			_ = c.Close()
		})
	}
}

// A cancelled request of a shard that stays with its owner cannot be sent to another node.
func TestCancelledRequestOfStayingShardGetsError(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr, seen := hanging(t)
			front, owner := start(t, addr)
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			<-seen
			owner.CancelShards(allShards, "draining")
			res, body := c.answer("GET")
			wantStatus(t, res, body, 502, "shard-moved")
		})
	}
}

// A long poll reaches the next owner from every kind of route: plain, TLS, or a multiplexed stream.
func TestLongPollReachesNextOwnerOnEveryRoute(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr, seen := hanging(t)
			front, owner := start(t, addr)
			next := newNode(t, "next", webApp(t, echo))
			if front.muxSessions.Load() != nil {
				next.acceptMuxSessions() // otherwise the ingress waits ten seconds for a session to it
			}
			for _, n := range []*node{front, owner} {
				n.knows("next", next)
			}
			if front.seal.Load() != nil {
				seal(t, front, owner, next)
			}
			c := front.dial()
			c.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			<-seen
			owner.swap(1, 2, held(route.ReasonMoving))
			owner.CancelShards(allShards, "draining")
			until(t, "the request waits", func() bool { return front.room.Stats().Waiting == 1 })
			next.swap(2, 2, local(2))
			owner.swap(2, 2, remote("next", 2))
			front.swap(2, 2, remote("next", 2))
			if res, body := c.answer("GET"); body != "GET /x " || res.Header.Get("Saw-Shardway-Node") != "next" {
				t.Errorf("GET = %v %q", res.Status, body)
			}
		})
	}
}

// same returns a route function that gives every shard the same route.
func same(r *route.Route) func(shardmap.Shard) route.Route {
	return func(shardmap.Shard) route.Route { return *r }
}

// The time of a long poll begins at the end of the request body. Once, a stopping node counted the
// time of the upload, and a GET with a body was aborted shortly after the end of its body.
func TestLongPollBeginsAfterItsBody(t *testing.T) {
	proxied := func(*proxy.Options) {}
	handler := func(streams bool) func(*proxy.Options) {
		return func(o *proxy.Options) {
			o.HandlerStreams = streams
			o.Handler = func(ctx *fasthttp.RequestCtx) {
				n := len(ctx.PostBody())
				if body := ctx.RequestBodyStream(); body != nil {
					read, _ := io.Copy(io.Discard, body)
					n = int(read)
				}
				select {
				case <-time.After(appPause(string(ctx.Path()))):
				case <-ctx.Done():
				}
				_, _ = fmt.Fprint(ctx, n)
			}
		}
	}
	for name, kind := range map[string]func(*proxy.Options){"app": proxied, "handler": handler(false), "streaming handler": handler(true)} {
		for _, local := range []bool{true, false} {
			for _, size := range []int{2_000, 300_000} {
				for _, path := range []string{"/short", "/long"} {
					t.Run(fmt.Sprint(name, ", local ", local, ", ", size, " bytes, ", path), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { stopsAfterUpload(t, kind, local, size, path) })
					})
				}
			}
		}
	}
}

// appPause returns how long the app works after the end of the body. The drain timeout is 3 s.
func appPause(path string) time.Duration {
	return map[string]time.Duration{"/short": 2900 * time.Millisecond, "/long": 20 * time.Second}[path]
}

// stopsAfterUpload sends a GET whose body takes longer than the drain timeout to a stopping node.
func stopsAfterUpload(t *testing.T, kind func(*proxy.Options), local bool, size int, path string) {
	t.Helper()
	front, owner := simPair(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			n, err := io.Copy(io.Discard, req.Body)
			if err != nil {
				return
			}
			time.Sleep(appPause(req.URL.Path))
			text := strconv.FormatInt(n, 10)
			if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text); err != nil {
				return
			}
		}
	}, kind, func(o *proxy.Options) { o.DrainTimeout, o.MinBodyRate = 3*time.Second, -1 })
	if local {
		front = owner
	}
	c := front.dial()
	c.get("/")
	half := strings.Repeat("a", size/2)
	c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n%s", path, size, half)
	time.Sleep(4 * time.Second) // longer than the drain timeout
	ended := stopping(front, 25*time.Second)
	time.Sleep(2 * time.Second)
	c.send("%s", half)
	began := time.Now()
	res, err := http.ReadResponse(c.r, nil)
	took := time.Since(began)
	switch {
	case path == "/long":
		if err == nil || took < 2900*time.Millisecond || took > 3500*time.Millisecond {
			t.Errorf("%v after %v, want the connection closed after the drain timeout", err, took)
		}
	case err != nil:
		t.Errorf("no response: %v, %v after the end of the body", err, took)
	default:
		if b, err := io.ReadAll(res.Body); err != nil || string(b) != strconv.Itoa(size) {
			t.Errorf("response %q, %v", b, err)
		}
		_ = res.Body.Close()
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	time.Sleep(30 * time.Second) // until the app has finished
}
