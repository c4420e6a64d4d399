package proxy_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/accesslog"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// naming is an app that names a key for each request whose Shardway-Key is another one.
type naming struct {
	key      string // the key of all requests
	rejected atomic.Int32
	ran      atomic.Int32
}

func (n *naming) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if key, _ := url.PathUnescape(r.Header.Get("Shardway-Key")); key != n.key {
		n.rejected.Add(1)
		if r.URL.Path != "/unread" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		w.Header().Set("Shardway-Key", url.PathEscape(n.key))
		w.WriteHeader(http.StatusMisdirectedRequest)
		_, _ = io.WriteString(w, "not mine")
		return
	}
	n.ran.Add(1)
	echo(w, r)
}

// A request for which the app names another key is sent again with this key, with its body. The client does
// not notice.
func TestRequestIsReroutedToKeyOfApp(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			app := &naming{key: "a b/é%"}
			front, _ := start(t, webApp(t, app.ServeHTTP))
			c := front.dial()
			for _, lines := range []string{
				"Content-Length: 5\r\n\r\nhello",
				"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
			} {
				c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s", lines)
				res, body := c.answer("POST")
				if res.StatusCode != 200 || body != "POST /x hello" || res.Header.Get("Shardway-Key") != "" {
					t.Fatalf("%d %s %v", res.StatusCode, body, res.Header)
				}
				if key := res.Header.Get("Saw-Shardway-Key"); key != "a b/%C3%A9%25" {
					t.Errorf("key %q", key)
				}
				if shard := res.Header.Get("Saw-Shardway-Shard"); shard != fmt.Sprint(shardmap.ShardOf(app.key, shards)) {
					t.Errorf("shard %q", shard)
				}
			}
			c.get("/again") // the connection carries further requests
			if app.ran.Load() != 3 || app.rejected.Load() != 3 {
				t.Errorf("ran %d times, rejected %d times", app.ran.Load(), app.rejected.Load())
			}
			if n := metric(t, front, "shardway_retries_total", "key-named"); n != 3 {
				t.Errorf("%v are counted", n)
			}
		})
	}
}

// A body that the client still sends, or holds back, is not lost when the app names another key early.
func TestRerouteKeepsBodyThatStillArrives(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			app := &naming{key: "other"}
			front, _ := start(t, webApp(t, app.ServeHTTP))
			c := front.dial()
			c.send("POST /unread HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n")
			until(t, "rejected", func() bool { return app.rejected.Load() == 1 })
			c.send("2\r\nlo\r\n0\r\n\r\n")
			if res, body := c.answer("POST"); res.StatusCode != 200 || body != "POST /unread hello" {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			c = front.dial()
			c.send("POST /unread HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			res, _ := c.head("POST")
			if res.StatusCode != 100 {
				t.Fatalf("%d before the body", res.StatusCode)
			}
			c.send("hello")
			res, body := c.answer("POST")
			if res.StatusCode == 100 {
				res, body = c.answer("POST")
			}
			if res.StatusCode != 200 || body != "POST /unread hello" {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
		})
	}
}

// A request goes to the owner of the named key, which is another node.
func TestRerouteReachesOwnerOfNamedKey(t *testing.T) {
	app := func(id string) string {
		return webApp(t, func(w http.ResponseWriter, r *http.Request) {
			if key := r.Header.Get("Shardway-Key"); key != r.URL.Query().Get("real") {
				w.Header().Set("Shardway-Key", r.URL.Query().Get("real"))
				w.WriteHeader(http.StatusMisdirectedRequest)
				return
			}
			w.Header().Set("Served-By", id)
		})
	}
	even, odd, ingress := newNode(t, "even", app("even")), newNode(t, "odd", app("odd")), newNode(t, "ingress", "")
	nodes := []*node{even, odd}
	ownerOf := func(s shardmap.Shard) *node { return nodes[s%2] }
	for _, n := range []*node{even, odd, ingress} {
		n.knows("even", even)
		n.knows("odd", odd)
		n.swap(2, 2, func(s shardmap.Shard) route.Route {
			if owner := ownerOf(s); owner != n {
				return route.Route{Kind: route.Remote, Node: owner.id, Epoch: 1}
			}
			return route.Route{Kind: route.Local, Epoch: 1}
		})
	}
	for i := range 20 {
		real := fmt.Sprintf("key%d", i)
		owner := ownerOf(shardmap.ShardOf(real, shards))
		for _, n := range []*node{ingress, even, odd} {
			c := n.dial()
			c.send("GET /?real=%s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", real)
			if res, body := c.answer("GET"); res.StatusCode != 200 || res.Header.Get("Served-By") != owner.id {
				t.Errorf("%s by %s: %d %s by %q, want %s", real, n.id, res.StatusCode, body, res.Header.Get("Served-By"), owner.id)
			}
			_ = c.Close()
		}
	}
}

// A client cannot name a key, and no client sees a response that names one.
func TestRerouteIsForAppsOnly(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			var answers atomic.Pointer[string]
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					_, _ = io.WriteString(conn, *answers.Load())
				}
			}))
			for _, tc := range []struct {
				answer string
				status int
				code   string
			}{
				{"421 X\r\nShardway-Key: a", 508, "reroute-loop"}, // each app instance names it again
				{"421 X\r\nShardway-Key: k", 508, "reroute-loop"}, // the request has this key already
				{"421 X\r\nShardway-Key: ", 502, "upstream-broken"},
				{"421 X\r\nShardway-Key: a%", 502, "upstream-broken"},
				{"421 X\r\nShardway-Key: a%4", 502, "upstream-broken"},
				{"421 X\r\nShardway-Key: a%zz", 502, "upstream-broken"},
				{"421 X\r\nShardway-Key: a\r\nShardway-Key: a", 502, "upstream-broken"},
				{"421 X\r\nShardway-Key: " + strings.Repeat("x", 2049), 502, "upstream-broken"},
				// Other responses are for the client.
				{"421 X\r\nX-Key: a", 421, ""},
				{"421 X\r\nShardway_Key: a", 421, ""},
				{"200 X\r\nShardway-Key: a", 200, ""},
				{"404 X\r\nShardway-Key: a", 404, ""},
			} {
				answer := "HTTP/1.1 " + tc.answer + "\r\nContent-Length: 0\r\n\r\n"
				answers.Store(&answer)
				c := front.dial()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nShardway-Key: evil\r\nContent-Length: 2\r\n\r\nhi")
				res, body := c.answer("POST")
				if res.StatusCode != tc.status || res.Header.Get("Shardway-Error") != tc.code {
					t.Errorf("%.60q: %d %s", tc.answer, res.StatusCode, body)
				}
				if tc.code != "" && (res.Header.Get("Shardway-Key") != "" || !strings.Contains(body, "has not run")) {
					t.Errorf("%.60q: %v %s", tc.answer, res.Header, body)
				}
				_ = c.Close()
			}
		})
	}
}

// A request is sent again once, even if each app instance names a key that is new to it.
func TestRequestIsReroutedOnce(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			var requests atomic.Int32
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, _ *http.Request) {
				if n := requests.Add(1); n < 10 {
					w.Header().Set("Shardway-Key", fmt.Sprint("key", n))
					w.WriteHeader(http.StatusMisdirectedRequest)
				}
			}))
			res, body := front.dial().get("/")
			wantStatus(t, res, body, 508, "reroute-loop")
			if n := requests.Load(); n != 2 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// A request with a body that exceeds the buffer cannot be sent again.
func TestLargeBodyIsNotRerouted(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			app := &naming{key: "other"}
			front, _ := start(t, webApp(t, app.ServeHTTP), func(o *proxy.Options) { o.BodyBuffer = 1 << 10 })
			for _, isChunked := range []bool{false, true} {
				c := front.dial()
				body, lines := strings.Repeat("x", 5000), "Content-Length: 5000\r\n"
				if isChunked {
					body, lines = chunked(body), "Transfer-Encoding: chunked\r\n"
				}
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s\r\n%s", lines, body)
				res, text := c.answer("POST")
				wantStatus(t, res, text, 413, "too-large")
				if !strings.Contains(text, "--body-buffer") || app.ran.Load() != 0 {
					t.Errorf("%s, ran %d times", text, app.ran.Load())
				}
				_ = c.Close()
			}
		})
	}
}

// Requests without a key, with a minted key and with a sticky cookie can be sent again, too.
func TestRequestsWithoutKeyAreRerouted(t *testing.T) {
	for policy, spec := range map[string]shardkey.Spec{
		"local":  {OnMissingKey: "local"},
		"cookie": {OnMissingKey: "cookie"},
		"mint":   {Routes: []shardkey.Route{{Prefix: "/", Sources: []string{"mint"}}}},
		"hash":   {OnMissingKey: "hash-path"},
	} {
		app := &naming{key: "other"}
		n := newNode(t, "a", webApp(t, app.ServeHTTP), func(o *proxy.Options) { o.Keys = keysOf(t, spec) })
		c := n.dial()
		c.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello")
		res, body := c.answer("POST")
		if res.StatusCode != 200 || res.Header.Get("Saw-Shardway-Key") != "other" || body != "POST /x hello" || len(cookiesOf(t, res)) != 0 {
			t.Errorf("%s: %d %s %v", policy, res.StatusCode, body, res.Header)
		}
	}
	// A gateway sends a preflight without a key to any node, and then to the owner of the named key.
	app := &naming{key: "other"}
	gateway, _ := pair(t, webApp(t, app.ServeHTTP))
	c := gateway.dial()
	c.send("OPTIONS /x HTTP/1.1\r\nHost: h\r\nAccess-Control-Request-Method: POST\r\n\r\n")
	if res, body := c.answer("OPTIONS"); res.StatusCode != 200 || res.Header.Get("Saw-Shardway-Key") != "other" {
		t.Errorf("gateway: %d %s %v", res.StatusCode, body, res.Header)
	}
}

// All rules for keys apply to the named key: it may be in quarantine, and the access log contains it.
func TestNamedKeyIsSubjectToRulesOfKeys(t *testing.T) {
	var log journal
	app := &naming{key: "other"}
	hashKey := []byte("hash key")
	n := newNode(t, "a", webApp(t, app.ServeHTTP), func(o *proxy.Options) {
		o.HashKey = func() []byte { return hashKey }
		o.Access = &accesslog.Config{Log: zerolog.New(&log), Keys: true}
	})
	c := n.dial()
	c.get("/")
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: other\r\n\r\n")
	c.answer("GET")
	q := &shardkey.Quarantine{}
	q.Add(shardmap.ShardOf("other", shards), shardkey.Hash(hashKey, []byte("other")), hashKey)
	n.Quarantine(q)
	res, body := c.get("/")
	wantStatus(t, res, body, 503, "quarantined")
	_ = c.Close()
	rerouted, direct := log.next(t, 1), log.next(t, 2)
	if rerouted["rerouted"] != true || rerouted["key"] != "other" || direct["rerouted"] != nil {
		t.Errorf("%v, %v", rerouted, direct)
	}
}

// The list of busy keys contains the named key, and not the previous key.
func TestNamedKeyIsCountedAsBusy(t *testing.T) {
	app := &naming{key: "other"}
	n := newNode(t, "a", webApp(t, app.ServeHTTP), func(o *proxy.Options) {
		o.Shards, o.HashKey = shards, func() []byte { return []byte("s") }
	})
	c := n.dial()
	for range 500 { // one of 16 requests is sampled
		c.get("/")
	}
	rate := func(key string) float64 {
		for _, load := range n.Load().Keys {
			if load.Hash == shardkey.Hash([]byte("s"), []byte(key)) {
				return load.Requests
			}
		}
		return 0
	}
	until(t, "the key is listed", func() bool { return rate("other") > 0 })
	if previous := rate("k"); previous > rate("other")/4 { // a key may be counted just before it is replaced
		t.Errorf("the previous key has %v requests per second, and the named key %v", previous, rate("other"))
	}
}

// An app in the process of its node can name a key.
func TestHandlerNamesKey(t *testing.T) {
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, func(ctx *fasthttp.RequestCtx) {
				if key := string(ctx.Request.Header.Peek("Shardway-Key")); key != "other" {
					ctx.Response.Header.Set("Shardway-Key", "other")
					ctx.SetStatusCode(http.StatusMisdirectedRequest)
					ctx.SetBodyString("not mine")
					return
				}
				_, _ = ctx.WriteString("done " + string(ctx.PostBody()))
			})
			c := front.dial()
			for range 3 {
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nhello")
				if res, body := c.answer("POST"); res.StatusCode != 200 || body != "done hello" {
					t.Fatalf("%d %s", res.StatusCode, body)
				}
			}
			m := front.memoryRequest("POST", "/", 5)
			go func() { _, _ = io.WriteString(m.body, "hello") }()
			if res, body := m.answer(); res.StatusCode != 200 || body != "done hello" {
				t.Errorf("another front: %d %s", res.StatusCode, body)
			}
		})
	}
}

// A body of unknown length can be sent again to an app in this process, too, as long as it fits into the buffer.
// It does not matter how much of it the handler has read.
func TestHandlerNamesKeyOfChunkedBody(t *testing.T) {
	for way, start := range handlerWays() {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprint(way, " streams ", streams), func(t *testing.T) {
				front, _ := start(t, func(ctx *fasthttp.RequestCtx) {
					if key := string(ctx.Request.Header.Peek("Shardway-Key")); key != "other" {
						if stream := ctx.RequestBodyStream(); stream != nil {
							n, _ := strconv.Atoi(string(ctx.Request.Header.Peek("X-Read")))
							_, _ = io.CopyN(io.Discard, stream, int64(n))
						}
						ctx.Response.Header.Set("Shardway-Key", "other")
						ctx.SetStatusCode(http.StatusMisdirectedRequest)
						return
					}
					body := ctx.PostBody()
					if stream := ctx.RequestBodyStream(); stream != nil {
						body, _ = io.ReadAll(stream)
					}
					_, _ = fmt.Fprintf(ctx, "%d %x", len(body), sha256.Sum256(body))
				}, func(o *proxy.Options) { o.HandlerStreams, o.BodyBuffer = streams, 4<<10 })
				c := front.dial()
				for _, size := range []int{5, 3000} {
					body := strings.Repeat("x", size-1) + "."
					for _, read := range []int{0, 1, size / 2, size, size + 1} {
						c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-Read: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s", read, chunked(body))
						if res, got := c.answer("POST"); res.StatusCode != 200 || got != fmt.Sprintf("%d %x", size, sha256.Sum256([]byte(body))) {
							t.Fatalf("%d of %d bytes read: %d %s", read, size, res.StatusCode, got)
						}
					}
				}
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-Read: 5000\r\nTransfer-Encoding: chunked\r\n\r\n%s", chunked(strings.Repeat("x", 5000)))
				res, got := c.answer("POST")
				wantStatus(t, res, got, 413, "too-large")
			})
		}
	}
}

// Shardway-Acquire precedes Shardway-Key: the app acquires the shard, and can name the key of the request
// when it returns.
func TestAcquirePrecedesNamedKey(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			var acquired atomic.Bool
			app := &naming{key: "other"}
			var asked atomic.Int32
			front, owner := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				if !acquired.Load() {
					w.Header().Set("Shardway-Acquire", "1")
				}
				app.ServeHTTP(w, r)
			}), func(o *proxy.Options) { o.NotAcquired = func(shardmap.Shard, uint64) { asked.Add(1) } })
			c := front.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
			until(t, "the node is told", func() bool { return asked.Load() == 1 })
			if app.rejected.Load() != 1 {
				t.Errorf("rejected %d times", app.rejected.Load())
			}
			acquired.Store(true)
			owner.swap(1, 1, held(route.ReasonAcquiring))
			owner.swap(1, 1, local(1))
			if res, _ := c.answer("POST"); res.StatusCode != 200 || res.Header.Get("Saw-Shardway-Key") != "other" {
				t.Errorf("%d %v", res.StatusCode, res.Header)
			}
		})
	}
}

// A request for a WebSocket can be sent again, also if it had no key at first.
func TestWebSocketRequestIsRerouted(t *testing.T) {
	for way, start := range ways() {
		for _, lines := range []string{"X-Shard-Key: k\r\n", ""} {
			t.Run(way+" "+lines, func(t *testing.T) {
				front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
					for {
						header, err := readHead(r)
						if err != nil {
							return
						}
						if !strings.Contains(header, "Shardway-Key: other\r\n") {
							_, _ = io.WriteString(conn, "HTTP/1.1 421 X\r\nShardway-Key: other\r\nContent-Length: 0\r\n\r\n")
							continue
						}
						if !strings.Contains(header, "Shardway-WebSocket: ") { // the WebSocket can be resumed
							return
						}
						_, _ = io.WriteString(conn, "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
						return
					}
				}), func(o *proxy.Options) {
					o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"header:X-Shard-Key", "none"}})
				})
				c := front.dial()
				c.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n%s\r\n", lines)
				if res, _ := c.head("GET"); res.StatusCode != 101 || res.Header.Get("Shardway-Key") != "" {
					t.Fatalf("%d %v", res.StatusCode, res.Header)
				}
			})
		}
	}
}

// The key that an app has named stays when the key configuration changes while the request waits.
func TestNamedKeySurvivesKeyChange(t *testing.T) {
	app := &naming{key: "other"}
	ingress, owner := pair(t, webApp(t, app.ServeHTTP))
	target := shardmap.ShardOf("other", shards)
	ingress.swap(1, 1, func(s shardmap.Shard) route.Route {
		if s == target {
			return route.Route{Kind: route.Queued, Reason: route.ReasonMoving}
		}
		return route.Route{Kind: route.Remote, Node: "owner", Epoch: 1}
	})
	c := ingress.dial()
	c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-Tenant: t\r\nContent-Length: 5\r\n\r\nhello")
	until(t, "it waits", func() bool { return ingress.room.Stats().Waiting == 1 })
	keys := parsedKeys(t, `{"key":["header:x-tenant"],"on_missing_key":"reject"}`)
	ingress.keys, ingress.keysSince, owner.keys, owner.keysSince = keys, 2, keys, 2
	owner.swap(2, 2, local(2))
	ingress.swap(2, 2, remote("owner", 2))
	if res, body := c.answer("POST"); res.StatusCode != 200 || res.Header.Get("Saw-Shardway-Key") != "other" || body != "POST /x hello" {
		t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
	}
}

// An event loop hands over a request that must be sent again.
func TestEventLoopReroutes(t *testing.T) {
	app := &naming{key: "other"}
	n := newNode(t, "a", webApp(t, app.ServeHTTP))
	c := n.dialToLoop()
	for range 5 {
		c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nhello")
		if res, body := c.answer("POST"); res.StatusCode != 200 || body != "POST /x hello" {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
	}
}
