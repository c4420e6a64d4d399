package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// staysOpen records the holds that a node is told of.
type staysOpen struct {
	mu   sync.Mutex
	told []string
}

func (h *staysOpen) option(o *proxy.Options) {
	o.HoldShard = func(s shardmap.Shard, epoch uint64, d time.Duration) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.told = append(h.told, fmt.Sprint(o.Node, " ", s, " ", epoch, " ", d))
	}
}

// want compares the holds that were recorded since the last call.
func (h *staysOpen) want(t *testing.T, what string, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if fmt.Sprint(h.told) != fmt.Sprint(want) {
		t.Errorf("%s: told %q, want %q", what, h.told, want)
	}
	h.told = nil
}

// The hold duration in a response reaches the owner of the shard on every route of the request. The
// header is removed before the response reaches the client.
func TestHoldOfAResponseReachesTheOwnerAndNotTheClient(t *testing.T) {
	at := fmt.Sprint("owner ", shardmap.ShardOf("k", shards), " 1 ")
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			h := &staysOpen{}
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Shardway-Hold", r.Header.Get("Hold"))
				switch r.URL.Path {
				case "/interim":
					w.WriteHeader(http.StatusEarlyHints)
					w.Header().Del("Shardway-Hold")
				case "/events":
					w.Header().Set("Content-Type", "text/event-stream")
				case "/fails":
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = io.WriteString(w, "data: 1\n\n")
			}), h.option)
			c := front.dial()
			for _, tc := range []struct{ path, value, want string }{
				{"/", "90", "1m30s"},
				{"/", "0", "0s"},
				{"/events", "7", "7s"},
				{"/fails", "8", "8s"},
				{"/", "86400", "24h0m0s"},
				{"/", "86401", "24h0m0s"},
				{"/", "99999999999999999999999999", "24h0m0s"},
				{"/interim", "5", ""},
				{"/", "-1", ""},
				{"/", "1.5", ""},
				{"/", "1h", ""},
				{"/", "soon", ""},
				{"/", "0x10", ""},
				{"/", "1 2", ""},
			} {
				c.send("POST %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\nHold: %s\r\n\r\n", tc.path, tc.value)
				if tc.path == "/interim" {
					if res, _ := c.head("POST"); res.Header.Get("Shardway-Hold") != "" {
						t.Error("the client sees the header in an interim response")
					}
				}
				res, _ := c.answer("POST")
				if v := res.Header.Get("Shardway-Hold"); v != "" {
					t.Errorf("the client sees Shardway-Hold: %s", v)
				}
				var want []string
				if tc.want != "" {
					want = []string{at + tc.want}
				}
				h.want(t, tc.path+" "+tc.value, want...)
			}
		})
	}
}

// The 101 response of a WebSocket can hold a shard as well. A response to a request without a key
// holds none.
func TestHoldOfAnUpgradeAndOfARequestWithoutAKey(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			h := &staysOpen{}
			keys, err := shardkey.New(shardkey.Spec{OnMissingKey: "local"})
			if err != nil {
				t.Fatal(err)
			}
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Upgrade") == "" {
					w.Header().Set("Shardway-Hold", "9")
					return
				}
				conn, _, hijacking := http.NewResponseController(w).Hijack()
				if hijacking != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: thing\r\nShardway-Hold: 60\r\n\r\nhi")
				_ = conn.Close()
			}), h.option, func(o *proxy.Options) { o.Keys = keys })
			c := front.dial()
			c.send("%s", upgrade)
			head, err := readHead(c.r)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.ToLower(head), "shardway-hold") {
				t.Errorf("the client sees %q", head)
			}
			h.want(t, "upgrade", fmt.Sprint("owner ", shardmap.ShardOf("k", shards), " 1 1m0s"))
			c = front.dial()
			if front.id == "owner" { // an ingress without an app needs a key
				c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				c.answer("GET")
				h.want(t, "no key")
			}
		})
	}
}

// An app in the node's process can hold shards in the same way.
func TestHoldOfAHandler(t *testing.T) {
	h := &staysOpen{}
	n := newNode(t, "owner", "", h.option, func(o *proxy.Options) {
		o.Handler = func(ctx *fasthttp.RequestCtx) { ctx.Response.Header.Set("Shardway-Hold", "30") }
	})
	res, _ := n.dial().get("/")
	if v := res.Header.Get("Shardway-Hold"); v != "" {
		t.Errorf("the client sees Shardway-Hold: %s", v)
	}
	h.want(t, "handler", fmt.Sprint("owner ", shardmap.ShardOf("k", shards), " 1 30s"))
}

// Each value that is not a number of seconds is counted.
func TestInvalidHoldsAreCounted(t *testing.T) {
	h := &staysOpen{}
	n := newNode(t, "owner", webApp(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Shardway-Hold", "soon") }), h.option)
	c := n.dial()
	for range 3 {
		c.get("/")
	}
	h.want(t, "garbage")
	if got := metric(t, n, "shardway_invalid_holds_total"); got != 3 {
		t.Errorf("%v are counted, want 3", got)
	}
}

// A client cannot hold a shard, because its header is not forwarded to the app.
func TestClientsCannotSendHolds(t *testing.T) {
	seen := make(chan string, 1)
	n := newNode(t, "owner", webApp(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Shardway-Hold") }))
	n.dial().send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nShardway-Hold: 5\r\n\r\n")
	if got := <-seen; got != "" {
		t.Errorf("the app got %q", got)
	}
}
