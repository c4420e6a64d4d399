package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"testing"

	"shardway/proxy"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

var minted = regexp.MustCompile(`^[0-9a-f]{32}$`)

// minting configures the route /rooms, which generates keys, and extracts the key of paths below it
// from the path.
func minting(t *testing.T, expose bool) func(*proxy.Options) {
	t.Helper()
	return func(o *proxy.Options) {
		o.DebugHeaders = expose
		o.Keys = keysOf(t, shardkey.Spec{Routes: []shardkey.Route{{Prefix: "/rooms", Sources: []string{"mint"}}, {Prefix: "/rooms/", Sources: []string{"path:2"}}}})
	}
}

// A request that creates something gets a new, unique key. The app learns that the key is generated,
// also on a forwarded request. A client can send neither.
func TestGeneratedKeysAreUniqueAndReported(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Saw-Shard", r.Header.Get("Shardway-Shard"))
				_, _ = fmt.Fprintf(w, "%v %v", r.Header.Values("Shardway-Key"), r.Header.Values("Shardway-Minted"))
			}), minting(t, true))
			c, seen := front.dial(), map[string]bool{}
			for range 5 {
				c.send("POST /rooms HTTP/1.1\r\nHost: h\r\nX-Shard-Key: mine\r\nShardway-Key: mine\r\nShardway-Minted: 0\r\nContent-Length: 0\r\n\r\n")
				res, body := c.answer("POST")
				key := res.Header.Get("Shardway-Key")
				if seen[key] || !minted.MatchString(key) || body != "["+key+"] [1]" || len(res.Header.Values("Shardway-Key")) != 1 || res.Header.Get("Shardway-Minted") != "1" {
					t.Fatalf("%v: %s", res.Header, body)
				}
				if want := fmt.Sprint(shardmap.ShardOf(key, shards)); res.Header.Get("Saw-Shard") != want {
					t.Errorf("it ran in shard %s, want %s", res.Header.Get("Saw-Shard"), want)
				}
				seen[key] = true
				c.send("GET /rooms/%s HTTP/1.1\r\nHost: h\r\nShardway-Minted: 1\r\n\r\n", key)
				if again, body := c.answer("GET"); body != "["+key+"] []" || again.Header.Get("Shardway-Minted") != "" || again.Header.Get("Shardway-Key") != "" {
					t.Errorf("by its name: %v: %s", again.Header, body)
				}
			}
		})
	}
}

// Without Options.DebugHeaders, the response contains only the fields of the app.
func TestAppReportsGeneratedKeysItself(t *testing.T) {
	n := newNode(t, "a", webApp(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Shardway-Key", "told by the app") }), minting(t, false))
	c := n.dial()
	c.send("POST /rooms HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
	if res, _ := c.answer("POST"); res.Header.Get("Shardway-Key") != "told by the app" || res.Header.Get("Shardway-Minted") != "" {
		t.Errorf("%v", res.Header)
	}
}

// A request that is retried keeps its generated key, so the app does not create the same thing twice
// under two keys.
func TestGeneratedKeysAreKeptOnRetry(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			keys := make(chan string, 10)
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					keys <- req.Header.Get("Shardway-Key") + " " + req.Header.Get("Shardway-Minted")
					if len(keys) == 1 {
						return // the first attempt breaks
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}), minting(t, true))
			c := front.dial()
			c.send("PUT /rooms HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
			res, body := c.answer("PUT")
			if res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			want := res.Header.Get("Shardway-Key") + " 1"
			if first, second := <-keys, <-keys; first != want || second != want {
				t.Errorf("tried with %q, then with %q, and answered with %q", first, second, want)
			}
		})
	}
}

// Key generation is the last resort of a list of sources. Outside routes it needs an earlier source:
// with a new key for each request, a client could never address the same shard again.
func TestMintIsTheLastSource(t *testing.T) {
	everywhere := func(sources ...string) shardkey.Spec { return shardkey.Spec{Sources: sources} }
	below := func(sources ...string) shardkey.Spec {
		return shardkey.Spec{Routes: []shardkey.Route{{Prefix: "/rooms", Sources: sources}}}
	}
	for _, spec := range []shardkey.Spec{
		everywhere("mint"), everywhere("mint:POST"), everywhere("mint:POST", "mint:PUT"), everywhere("mint", "header:X-A"),
		everywhere("header:X-A", "mint", "path:1"), everywhere("header:X-A", "mint", "mint:POST"), everywhere("header:X-A", "mint", "mint"),
		below("mint", "path:2"), below("mint:POST", "path:2"), below("mint:POST", "path:2", "mint"), below("mint", "mint:POST"),
		below("mint:post"), below("mint:"), below("mint:POST PUT"),
	} {
		if _, err := shardkey.New(spec); err == nil {
			t.Errorf("%+v is accepted", spec)
		}
	}
	for _, spec := range []shardkey.Spec{
		everywhere("header:X-A", "mint"), everywhere("header:X-A", "path:1", "mint:POST", "mint:PUT"), everywhere("ip", "mint:POST", "mint"),
		below("mint"), below("mint:POST"), below("header:X-A", "mint:PROPFIND"), below("mint:POST", "mint"),
	} {
		if _, err := shardkey.New(spec); err != nil {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

// A key is generated only if no earlier source has one, and never for an ambiguous earlier source:
// the app might read a key of another shard from it.
func TestMintIsAFallback(t *testing.T) {
	spec := shardkey.Spec{
		Sources: []string{"cookie:sid", "query:user", "mint"},
		Routes:  []shardkey.Route{{Prefix: "/mcp", Sources: []string{"header:Mcp-Session-Id", "mint:POST", "mint:PUT"}}},
	}
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, spec) })
			c := front.dial()
			const isMinted, ambiguous, missing, keyless = "minted", "bad-request", "no-key", ""
			for _, tt := range []struct{ line, headers, want string }{
				{"GET /", "", isMinted},
				{"POST /", "Cookie: sid=\r\n", isMinted},
				{"GET /?user=", "Cookie: other=x\r\n", isMinted},
				{"GET /", "Cookie: sid=alice\r\nShardway-Minted: 1\r\n", "alice"},
				{"GET /?user=bob", "", "bob"},
				{"GET /", "Cookie: sid=alice; sid=bob\r\n", ambiguous},
				{"GET /", "Cookie: sid =alice\r\n", ambiguous},
				{"GET /", "Connection: cookie\r\nCookie: sid=alice\r\n", ambiguous},
				{"GET /?user=alice&user=bob", "", ambiguous},
				{"GET /?x=1;user=bob", "", ambiguous},
				{"POST /mcp", "", isMinted},
				{"PUT /mcp/x", "", isMinted},
				{"post /mcp", "", missing},
				{"GET /mcp", "", missing},
				{"POST /mcp", "Mcp-Session-Id: s\r\n", "s"},
				{"GET /mcp", "Mcp-Session-Id: s\r\n", "s"},
				{"POST /mcp", "Mcp-Session-Id: s\r\nMcp_Session_Id: t\r\n", ambiguous},
				{"POST /mcp/../", "", ambiguous},
				// A CORS preflight cannot have a key, and creates nothing.
				{"OPTIONS /", "Access-Control-Request-Method: POST\r\n", keyless},
				{"OPTIONS /mcp", "Access-Control-Request-Method: POST\r\n", keyless},
				{"OPTIONS /", "", isMinted},
			} {
				c.send("%s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n%s\r\n", tt.line, tt.headers)
				res, body := c.answer("GET")
				key, wasMinted := res.Header.Get("Saw-Shardway-Key"), res.Header.Get("Saw-Shardway-Minted") == "1"
				switch tt.want {
				case ambiguous, missing:
					wantStatus(t, res, body, 400, tt.want)
				case isMinted:
					if !wasMinted || !minted.MatchString(key) {
						t.Errorf("%s %q: %d %s, key %q", tt.line, tt.headers, res.StatusCode, body, key)
					}
				default:
					if res.StatusCode != 200 || wasMinted || key != tt.want {
						t.Errorf("%s %q: %d %s, key %q, minted %v", tt.line, tt.headers, res.StatusCode, body, key, wasMinted)
					}
				}
			}
		})
	}
}
