package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/internal/headerrules"
	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// headerRules configures rules for all paths and for /api.
func headerRules(o *proxy.Options) {
	o.Headers = headerrules.Config{
		Request:  headerrules.Rules{Set: []headerrules.Field{{Name: "X-User", Value: "none"}}, Add: []headerrules.Field{{Name: "X-Hop", Value: "1"}}, Remove: []string{"X-Debug", "X-Shard-Key"}},
		Response: headerrules.Rules{Set: []headerrules.Field{{Name: "Server", Value: "s"}}, Add: []headerrules.Field{{Name: "X-Added", Value: "1"}}, Remove: []string{"X-Secret"}},
	}
	o.Routes = []proxy.Route{{Prefix: "/api", Headers: headerrules.Config{
		Request:  headerrules.Rules{Set: []headerrules.Field{{Name: "x-user", Value: "api"}}},
		Response: headerrules.Rules{Add: []headerrules.Field{{Name: "X-Added", Value: "2"}}, Remove: []string{"Server"}},
	}}}
}

// countLines returns the values of the lines of a header with the given name, in order.
func countLines(head, name string) string {
	var values []string
	for line := range strings.SplitSeq(head, "\r\n") {
		if field, value, found := strings.Cut(line, ":"); found && strings.EqualFold(field, name) {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return strings.Join(values, ",")
}

// Only the node of the app applies the rules: each request and response is changed once, also if both nodes
// have the rules, and if the request is sent again. The key does not change.
func TestHeaderRulesApplyOnce(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			heads := make(chan string, 10)
			var hasBroken atomic.Bool
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					head, err := readHead(r)
					if err != nil {
						return
					}
					heads <- head
					if strings.HasPrefix(head, "PUT") && !hasBroken.Swap(true) {
						return // the first attempt breaks
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nServer: app\r\nX-Secret: 1\r\n\r\nHTTP/1.1 200 OK\r\nServer: app\r\nx-secret: 1\r\nX_Secret: 2\r\nX-Added: app\r\nContent-Length: 2\r\nX-Kept: 1\r\n\r\nok")
				}
			}), headerRules)
			c := front.dial()
			for _, tc := range []struct{ method, path, user, server, added string }{
				{"GET", "/x", "none", "s", "app,1"},
				{"GET", "/api/x", "api", "", "app,1,2"},
				{"PUT", "/apix", "none", "s", "app,1"},
			} {
				c.send("%s %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-User: eve\r\nX_User: eve\r\nx-debug: 1\r\nX-Other: 1\r\nX-Hop: 0\r\nContent-Length: 0\r\n\r\n", tc.method, tc.path)
				early, _ := c.head(tc.method)
				if early.StatusCode != http.StatusEarlyHints || early.Header.Get("Server") != "app" || early.Header.Get("X-Secret") != "1" {
					t.Errorf("%s: the interim response is %d %v", tc.path, early.StatusCode, early.Header)
				}
				res, body := c.answer(tc.method)
				if got := strings.Join(res.Header.Values("X-Added"), ","); body != "ok" || got != tc.added || res.Header.Get("Server") != tc.server || res.Header.Get("X-Secret")+res.Header.Get("X_Secret") != "" || res.Header.Get("X-Kept") != "1" {
					t.Errorf("%s: %d %q %v", tc.path, res.StatusCode, body, res.Header)
				}
				for attempt := range len(heads) {
					head := <-heads
					for name, want := range map[string]string{
						"X-User": tc.user, "X_User": "", "X-Debug": "", "X-Shard-Key": "", "X-Other": "1", "X-Hop": "0,1", "Shardway-Key": "k", "Content-Length": "0", "Host": "h",
					} {
						if got := countLines(head, name); got != want {
							t.Errorf("attempt %d of %s: %s is %q, want %q", attempt, tc.path, name, got, want)
						}
					}
				}
			}
		})
	}
}

// A client cannot use a trailer to give the app a field that a rule sets or removes. That holds for a body that
// arrives with the header, for one that arrives later, and for a request that is sent again.
func TestHeaderRulesRemoveTrailers(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			trailers := make(chan string, 10)
			var hasBroken atomic.Bool
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					if _, err := readHead(r); err != nil {
						return
					}
					for line := ""; line != "0\r\n"; {
						var err error
						if line, err = r.ReadString('\n'); err != nil {
							return
						}
					}
					trailer, err := readHead(r)
					if err != nil {
						return
					}
					trailers <- trailer
					if !hasBroken.Swap(true) {
						return // the first attempt breaks
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}), headerRules)
			c := front.dial()
			for _, pause := range []time.Duration{0, 50 * time.Millisecond} {
				c.send("PUT /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
				time.Sleep(pause)
				c.send("0\r\nX-User: eve\r\nX-Sum: 1\r\nx_user: eve\r\nX-Debug: 1\r\nX-Hop: 0\r\n\r\n")
				if res, body := c.answer("PUT"); body != "ok" {
					t.Fatalf("%d %q", res.StatusCode, body)
				}
			}
			for attempt := range len(trailers) {
				trailer := <-trailers
				for name, want := range map[string]string{"X-User": "", "X_User": "", "X-Debug": "", "X-Sum": "1", "X-Hop": "0"} {
					if got := countLines(trailer, name); got != want {
						t.Errorf("attempt %d: %s is %q, want %q", attempt, name, got, want)
					}
				}
			}
		})
	}
}

func TestHandlerObeysHeaderRules(t *testing.T) {
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			n, _ := start(t, func(ctx *fasthttp.RequestCtx) {
				ctx.Response.Header.Set("X-Secret", "1")
				ctx.Response.Header.Set("Saw-User", string(ctx.Request.Header.Peek("X-User")))
				ctx.Response.Header.Set("Saw-Debug", string(ctx.Request.Header.Peek("X-Debug")))
				_, _ = ctx.WriteString("ok")
			}, headerRules)
			c := n.dial()
			for range 3 {
				c.send("GET /api HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\nX-User: eve\r\nX-Debug: 1\r\n\r\n")
				res, body := c.answer("GET")
				if body != "ok" || res.Header.Get("Saw-User") != "api" || res.Header.Get("Saw-Debug") != "" || res.Header.Get("X-Secret") != "" || strings.Join(res.Header.Values("X-Added"), ",") != "1,2" {
					t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
				}
			}
		})
	}
}

// Responses of Shardway itself stay unchanged, at the owner and at the ingress.
func TestHeaderRulesDoNotChangeProblems(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, rawApp(t, func(net.Conn, *bufio.Reader) {}), headerRules)
			c := front.dial()
			c.send("POST /api HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
			res, body := c.answer("POST")
			if res.StatusCode != 502 || len(res.Header.Values("X-Added")) > 0 {
				t.Errorf("from %s: %d %v %s", owner.id, res.StatusCode, res.Header, body)
			}
			c = front.dial()
			c.send("GET /api HTTP/1.1\r\nHost: h\r\n\r\n")
			if res, _ = c.answer("GET"); res.StatusCode != 400 || len(res.Header.Values("X-Added")) > 0 {
				t.Errorf("%d %v", res.StatusCode, res.Header)
			}
		})
	}
}

// Shardway decides about the sticky cookie and about suffixes by the response that the client gets.
func TestHeaderRulesPrecedeCookies(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "private") }), func(o *proxy.Options) {
				o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "cookie"})
				o.Routes = []proxy.Route{{Prefix: "/static", Headers: headerrules.Config{Response: headerrules.Rules{Set: []headerrules.Field{{Name: "Cache-Control", Value: "public, max-age=60"}}}}}}
			})
			c := front.dial()
			for path, want := range map[string]int{"/static/a": 0, "/x": 1} {
				c.send("GET %s HTTP/1.1\r\nHost: h\r\n\r\n", path)
				if res, _ := c.answer("GET"); len(res.Header.Values("Set-Cookie")) != want || len(res.Header.Values("Cache-Control")) != 1 {
					t.Errorf("%s: %v, want %d cookies", path, res.Header, want)
				}
			}
		})
	}
}

// A rule can remove a cookie that also loses its suffix, and keeps the replaced values of others.
func TestHeaderRulesAndSuffixes(t *testing.T) {
	front := newNode(t, "a", webApp(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Cookie")+" "+r.Header.Get("X-A")+" "+r.Header.Get("X-B"))
	}), wrapping(t, shardkey.Spec{Sources: []string{"wrap:cookie:sid"}}), func(o *proxy.Options) {
		o.Headers.Request.Remove = []string{"X-A"}
		o.Routes = []proxy.Route{{Prefix: "/bare", Headers: headerrules.Config{Request: headerrules.Rules{Remove: []string{"Cookie"}}}}}
	})
	c := front.dial()
	for path, want := range map[string]string{"/": "sid=v  2", "/bare": "  2"} {
		c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nCookie: sid=%s\r\nX-A: 3\r\nX-B: 2\r\n\r\n", path, wrap(t, "wrap:cookie:sid", wrapID, "v"))
		if res, body := c.answer("GET"); body != want {
			t.Errorf("%s: %d %q, want %q", path, res.StatusCode, body, want)
		}
	}
}

// Each upstream connection of a WebSocket gets the changed request. The 101 response stays unchanged.
func TestWebSocketObeysHeaderRules(t *testing.T) {
	inSockets(t, func() *chat { return &chat{} }, func(w *socketTest) {
		c := w.front.dial()
		c.send("GET /chat HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-User: eve\r\nX-Debug: 1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if res, _ := c.head("GET"); res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("X-Added") != "" {
			w.Fatalf("%s %v", res.Status, res.Header)
		}
		c.sendText("one")
		w.own(w.b)
		time.Sleep(time.Minute)
		c.sendText("two")
		time.Sleep(time.Minute)
		w.app.mu.Lock()
		defer w.app.mu.Unlock()
		if len(w.app.heads) < 2 {
			w.Fatalf("%d upstream connections", len(w.app.heads))
		}
		for i, head := range w.app.heads {
			if strings.Join(head.Values("X-User"), ",") != "none" || strings.Join(head.Values("X-Hop"), ",") != "1" || head.Get("X-Debug") != "" {
				w.Errorf("upstream connection %d: %v", i, head)
			}
		}
	}, headerRules)
}

// Each request for an event stream is changed. The client gets one response header.
func TestEventStreamObeysHeaderRules(t *testing.T) {
	for _, local := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newStreams(t, local, headerRules)
			l := w.opens("GET /events HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-User: eve\r\nX-Debug: 1\r\n\r\n").begins(resumable, "id: 1\n\n")
			heads := []string{l.head}
			w.reads("id: 1\n\n")
			w.move(w.first, w.next)
			<-l.over
			l = (<-w.legs).begins(resumable, "id: 2\n\n")
			heads = append(heads, l.head)
			w.reads("id: 2\n\n")
			_, _ = io.WriteString(l.Conn, "0\r\n\r\n")
			w.ends("", true)
			for i, head := range heads {
				if countLines(head, "X-User") != "none" || countLines(head, "X-Hop") != "1" || countLines(head, "X-Debug") != "" {
					t.Errorf("upstream connection %d: %q", i, head)
				}
			}
		})
	}
}

// A request that the app of the ingress has refused is changed only once at the next node, by that node.
func TestReroutedRequestIsChangedOnce(t *testing.T) {
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Shardway-Key") != "other" {
			w.Header().Set("Shardway-Key", "other")
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
		_, _ = io.WriteString(w, strings.Join(r.Header.Values("X-Hop"), ",")+" "+r.Header.Get("Shardway-Node"))
	})
	named := shardmap.ShardOf("other", shards)
	key := "k"
	for i := 0; shardmap.ShardOf(key, shards) == named; i++ {
		key = "k" + strconv.Itoa(i)
	}
	a, b := newNode(t, "a", app, headerRules), newNode(t, "b", app, headerRules)
	a.knows("b", b)
	b.swap(1, 1, local(1))
	a.swap(1, 1, func(s shardmap.Shard) route.Route {
		if s == named {
			return remote("b", 1)(s)
		}
		return local(1)(s)
	})
	c := a.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", key)
	if res, body := c.answer("GET"); body != "1 b" || strings.Join(res.Header.Values("X-Added"), ",") != "1" {
		t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
	}
}

// A front other than HTTP/1 sends the changed response, too.
func TestInboundObeysHeaderRules(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Secret", "1")
				w.Header().Set("Saw-User", strings.Join(r.Header.Values("X-User"), ",")+r.Header.Get("X-Debug"))
			}), headerRules)
			c := front.memoryRequest("GET", "/api", 0, "X-Shard-Key: k", "X-User: eve", "X-Debug: 1")
			if res, _ := c.answer(); res.Header.Get("Saw-User") != "api" || res.Header.Get("X-Secret") != "" || strings.Join(res.Header.Values("X-Added"), ",") != "1,2" {
				t.Errorf("%v", res.Header)
			}
		})
	}
}

// Rules without routes apply to each request of a connection that may use an event loop.
func TestEventLoopObeysHeaderRules(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Headers.Response.Set = []headerrules.Field{{Name: "X-Added", Value: "1"}}
	})
	c := n.dial()
	for i := range 8 {
		if res, _ := c.get("/"); res.Header.Get("X-Added") != "1" {
			t.Fatalf("response %d: %v", i, res.Header)
		}
		time.Sleep(5 * time.Millisecond) // the connection may join an event loop
	}
}
