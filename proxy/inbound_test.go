package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/route"
)

// The tests of this file run requests of a memoryFront through the same steps as requests of the
// HTTP/1 front, to the same nodes and apps.

// A front other than HTTP/1 gets the complete response of an app, and the app gets the request and
// the address of its client.
func TestInboundRequestGetsResponse(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			n, _ := start(t, webApp(t, echo))
			for _, body := range []string{"", "small", large} {
				c := n.memoryRequest("POST", "/x?q=1", len(body))
				go func() { _, _ = io.WriteString(c.body, body) }()
				res, got := c.answer()
				if want := "POST /x?q=1 " + body; res.StatusCode != 200 || got != want {
					t.Fatalf("%d %.100q, want %.100q", res.StatusCode, got, want)
				}
				if res.Header.Get("Saw-X-Forwarded-For") != "192.0.2.9" || res.Header.Get("Saw-Shardway-Key") != "k" {
					t.Errorf("header: %v", res.Header)
				}
				if res.Header.Get("Connection") != "" || res.Header.Get("Transfer-Encoding") != "" {
					t.Errorf("fields of HTTP/1: %v", res.Header)
				}
			}
		})
	}
}

// An app inside the process serves a front other than HTTP/1. The body of a request that the buffer
// cannot contain arrives as a stream, or completely.
func TestInboundRequestRunsInHandler(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	for _, streams := range []bool{false, true} {
		for way, start := range handlerWays() {
			t.Run(way+map[bool]string{false: ", whole", true: ", streams"}[streams], func(t *testing.T) {
				n, _ := start(t, func(ctx *fasthttp.RequestCtx) {
					var body []byte
					if streams {
						body, _ = io.ReadAll(ctx.RequestBodyStream())
					} else {
						body = ctx.PostBody()
					}
					_, _ = ctx.WriteString(ctx.RemoteIP().String() + " " + string(body))
				}, func(o *proxy.Options) { o.HandlerStreams = streams })
				c := n.memoryRequest("POST", "/", -1)
				go func() {
					c.sendChunk(large)
					c.sendChunk("")
				}()
				if res, body := c.answer(); res.StatusCode != 200 || body != "192.0.2.9 "+large {
					t.Fatalf("%d %.100q", res.StatusCode, body)
				}
			})
		}
	}
}

// The bodies of a request and of its response pass through at the same time, each part as soon as it
// has arrived.
func TestInboundBodiesStreamInBothDirections(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			n, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				_ = control.EnableFullDuplex()
				buf := make([]byte, 100)
				for {
					read, err := r.Body.Read(buf)
					_, _ = w.Write(buf[:read])
					_ = control.Flush()
					if err != nil {
						return
					}
				}
			}))
			c := n.memoryRequest("POST", "/", -1)
			for i, part := range []string{"one", "two", "three"} {
				c.sendChunk(part)
				if i == 0 {
					if res := c.header(); res.StatusCode != 200 {
						t.Fatalf("status %d", res.StatusCode)
					}
				}
				if got := c.data(len(part)); got != part {
					t.Fatalf("%q, want %q", got, part)
				}
			}
			c.sendChunk("")
			if rest, err := c.rest(); rest != "" || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
}

// A cancelled request gets an error response before its response has begun, and is aborted after that.
func TestInboundRequestIsCancelled(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			addr, seen := hanging(t)
			n, owner := start(t, addr)
			c := n.memoryRequest("POST", "/", 2)
			c.send("hi")
			<-seen
			if cancelled := owner.CancelShards(allShards, "draining"); cancelled != 1 {
				t.Errorf("%d requests cancelled, want 1", cancelled)
			}
			res, body := c.answer()
			wantStatus(t, res, body, 502, "shard-moved")
		})
		t.Run(way+", within the response", func(t *testing.T) {
			n, owner := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "first")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}))
			c := n.memoryRequest("GET", "/", 0)
			c.header()
			c.data(len("first"))
			if cancelled := owner.CancelShards(allShards, "draining"); cancelled != 1 {
				t.Errorf("%d requests cancelled, want 1", cancelled)
			}
			if _, err := c.rest(); err == nil {
				t.Error("the response looks complete")
			}
			until(t, "the shard is released", func() bool { return owner.running.Load() == 0 })
		})
	}
}

// A client that disconnects ends its request at the app, whether the app waits, reads the body of the
// request or sends its response.
func TestInboundDisconnectEndsRequest(t *testing.T) {
	for way, start := range ways() {
		for name, tc := range map[string]struct {
			size    int
			respond bool
		}{"while the app waits": {0, false}, "within the request": {1 << 20, false}, "within the response": {0, true}} {
			t.Run(way+", "+name, func(t *testing.T) {
				began, ended := make(chan struct{}), make(chan struct{})
				n, owner := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
					defer close(ended)
					if tc.respond {
						_, _ = io.WriteString(w, "first")
						_ = http.NewResponseController(w).Flush()
					}
					close(began)
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
				}), func(o *proxy.Options) { o.BodyBuffer = 1 << 10 })
				c := n.memoryRequest("POST", "/", tc.size)
				if tc.size > 0 {
					c.send(strings.Repeat("x", 4<<10))
				}
				<-began
				c.cancel()
				select {
				case <-ended:
				case <-time.After(20 * time.Second):
					t.Fatal("the app still has the request")
				}
				until(t, "the shard is released", func() bool { return owner.running.Load() == 0 })
			})
		}
	}
}

// A request whose owner refuses it waits, and is sent to the next owner with its body.
func TestInboundRequestMovesToNextOwner(t *testing.T) {
	app := webApp(t, echo)
	first := newNode(t, "first", app)
	second := newNode(t, "second", app)
	n := newNode(t, "ingress", "")
	n.knows("first", first)
	n.knows("second", second)
	n.swap(1, 1, remote("first", 1))
	first.swap(1, 1, remote("second", 2)) // it has handed its shards over
	c := n.memoryRequest("POST", "/", 5)
	c.send("hello")
	until(t, "the first owner has refused", func() bool { return metric(t, first, "shardway_refused_total", "not-owner") > 0 })
	second.swap(2, 2, local(2))
	n.swap(2, 2, remote("second", 2))
	res, body := c.answer()
	if res.StatusCode != 200 || body != "POST / hello" || res.Header.Get("Saw-Shardway-Node") != "second" {
		t.Fatalf("%d %v %q", res.StatusCode, res.Header, body)
	}
	if admitted := first.admitted.Load(); admitted != 0 {
		t.Errorf("the first owner admitted %d requests", admitted)
	}
}

// A request that waits for an owner ends when its client disconnects.
func TestInboundDisconnectEndsWait(t *testing.T) {
	n := newNode(t, "n", webApp(t, echo))
	n.swap(2, 2, held(route.ReasonMoving))
	c := n.memoryRequest("GET", "/", 0)
	until(t, "the request waits", func() bool { return n.room.Stats().Waiting == 1 })
	c.cancel()
	until(t, "the request has ended", func() bool { return n.room.Stats().Waiting == 0 })
	<-c.done
}

// Responses of the node itself reach a front other than HTTP/1.
func TestInboundRequestGetsLocalResponse(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			n, owner := start(t, webApp(t, echo))
			n.Quarantine(quarantineOf(n.Table().Shards(), "", "k"))
			res, body := n.memoryRequest("GET", "/", 0).answer()
			wantStatus(t, res, body, 503, "quarantined")
			if admitted := owner.admitted.Load(); admitted != 0 {
				t.Errorf("%d requests were admitted", admitted)
			}
			res, body = n.memoryRequest("GET", "/", 0, "Bad Name: x").answer() // validated like HTTP/1
			wantStatus(t, res, body, 400, "bad-request")
		})
	}
}
