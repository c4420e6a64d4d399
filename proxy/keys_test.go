package proxy_test

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
)

func keysOf(t *testing.T, spec shardkey.Spec) *shardkey.Keys {
	t.Helper()
	k, err := shardkey.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func jwt(claims string) string {
	e := base64.RawURLEncoding.EncodeToString
	return e([]byte(`{"alg":"none"}`)) + "." + e([]byte(claims)) + "." + e([]byte("sig"))
}

func TestKeysAreFoundInTheirSources(t *testing.T) {
	for _, tc := range []struct {
		source, target, lines, key string
	}{
		{"header:X-Tenant", "/", "X-Tenant: alice\r\n", "alice"},
		{"header:x-tenant", "/", "X-TENANT:  alice  \r\n", "alice"},
		{"header:X-Tenant", "/", "X-Tenant:\r\nX-Tenant: second\r\n", "second"},
		{"header:X-Tenant", "/", "X-Tenant: two words\r\n", "two words"},
		{"header:X-Tenant", "/", "X-Tenant: \xc3\xa9\r\n", "%C3%A9"},
		{"path:1", "/rooms/alice", "", "rooms"},
		{"path:2", "/rooms/alice?x=/y", "", "alice"},
		{"path:2", "/rooms/alice/more", "", "alice"},
		{"path:2", "/rooms/%61lice", "", "alice"},
		{"path:2", "/rooms/alice//x;y/a%2Fb", "", "alice"},
		{"path:2", "/rooms/%C3%A9", "", "%C3%A9"},
		{"path:2", "/rooms/%25C3%25A9", "", "%25C3%25A9"},
		{"path:2", "/rooms/a%0d%0ab", "", "a%0D%0Ab"},
		{"path:2", "/rooms/", "", ""},
		{"path:3", "/rooms/alice", "", ""},
		{"query:user", "/?user=alice", "", "alice"},
		{"query:user", "/?a=b&user=alice&us%65r=%61lice", "", "alice"},
		{"query:user", "/?user=a+b&user=a%20b", "", "a b"},
		{"query:user", "/?user=&user=bob", "", "bob"},
		{"query:user", "/?us%65r=a%6cice+b", "", "alice b"},
		{"query:user", "/?user", "", ""},
		{"query:user", "/user=alice", "", ""},
		{"query:user", "/?user=100%", "", "100%25"},
		{"header:X-Tenant", "/", "X_Tenant: alice\r\nx-tenant: alice\r\n", "alice"},
		{"header:X_Tenant", "/", "X-Tenant: alice\r\n", "alice"},
		{"header:X-Forwarded-User", "/", "X-Forwarded-User: alice\r\n", ""}, // set by the client: no app gets it
		{"header:X-Real-IP", "/", "X-Real-IP: 6.6.6.6\r\n", ""},             // set by the client
		{"cookie:sid", "/", "Cookie: a=b; sid=alice; sid=alice\r\nCookie: sid=alice; sid=\r\n", "alice"},
		{"cookie:sid", "/", "Cookie: xsid=no\r\nCookie: sid=alice\r\n", "alice"},
		{"cookie:sid", "/", "Cookie: sid=\r\n", ""},
		{"cookie:sid", "/", "Cookie:  y=a b;\tsid=alice ;z= 1; xsid =no; q=\"a sid=b\"\r\n", "alice"},
		{"cookie:sid", "/", "Cookie: sid=\"a b\"\r\n", `"a b"`},
		{"host", "/", "", "example.com"},
		{"host:1", "/", "", "example"},
		{"host:2", "/", "", "com"},
		{"host:3", "/", "", ""},
		{"jwt:sub", "/", "Authorization: Bearer " + jwt(`{"sub":"alice"}`) + "\r\n", "alice"},
		{"jwt:sub", "/", "Authorization: bearer " + jwt(`{"sub":42}`) + "\r\n", "42"},
		{"jwt:sub", "/", "Authorization: Bearer " + jwt(`{"sub":{"x":1}}`) + "\r\n", ""},
		{"jwt:sub", "/", "Authorization: Bearer " + jwt(`{"sub":null}`) + "\r\n", ""},
		{"jwt:sub", "/", "Authorization: Bearer " + jwt(`nonsense`) + "\r\n", ""},
		{"jwt:sub", "/", "Authorization: Bearer a.b\r\n", ""},
		{"jwt:sub", "/", "Authorization: Basic YTpi\r\n", ""},
		{"ip", "/", "X-Forwarded-For: 6.6.6.6\r\n", "127.0.0.1"},
	} {
		n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{Sources: []string{tc.source}}) })
		c := n.dial()
		c.send("GET %s HTTP/1.1\r\nHost: Example.COM.:8080\r\n%s\r\n", tc.target, tc.lines)
		res, body := c.answer("GET")
		if tc.key == "" {
			wantStatus(t, res, body, 400, "no-key")
			continue
		}
		if got := res.Header.Get("Saw-Shardway-Key"); got != tc.key {
			t.Errorf("%s of %s %q = %q, want %q", tc.source, tc.target, tc.lines, got, tc.key)
		}
	}
}

func TestFirstSourceWithKeyWins(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Keys = keysOf(t, shardkey.Spec{
			Sources: []string{"header:X-Tenant", "query:t"},
			Routes: []shardkey.Route{
				{Prefix: "/rooms", Sources: []string{"path:2"}}, {Prefix: "/rooms/special/", Sources: []string{"path:3"}},
			},
		})
	})
	c := n.dial()
	for target, want := range map[string]string{
		"/?t=q": "head", "/rooms/r1": "r1", "/rooms/special/s": "s", "/rooms/special": "special", "/roomsx/r1?t=q": "head",
		"/%72ooms/r1?t=q": "r1", "/x//rooms;a/r1?t=q": "head", "/x%2frooms/r1": "head",
	} {
		c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-Tenant: head\r\n\r\n", target)
		if res, _ := c.answer("GET"); res.Header.Get("Saw-Shardway-Key") != want {
			t.Errorf("key of %s = %q, want %q", target, res.Header.Get("Saw-Shardway-Key"), want)
		}
	}
	c.send("GET /?t=q HTTP/1.1\r\nHost: h\r\n\r\n")
	if res, _ := c.answer("GET"); res.Header.Get("Saw-Shardway-Key") != "q" {
		t.Errorf("key = %q", res.Header.Get("Saw-Shardway-Key"))
	}
}

// A header with two lines is rejected as a key, because an app may use the last line while the node
// uses the first.
func TestTwoKeysInOneHeaderAreRejected(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"header:X-Tenant"}})
	})
	c := n.dial()
	for lines, want := range map[string]int{
		"X-Tenant: a\r\nX-Tenant: a\r\n": http.StatusOK,
		"X-Tenant: a\r\nx-tenant: b\r\n": http.StatusBadRequest,
		"X-Tenant: \r\nX-Tenant: b\r\n":  http.StatusOK,
		"X-Tenant: a\r\nX_Tenant: b\r\n": http.StatusBadRequest,
	} {
		c.send("GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", lines)
		if res, body := c.answer("GET"); res.StatusCode != want {
			t.Errorf("%q: %d %s, want %d", lines, res.StatusCode, body, want)
		}
	}
}

func TestRequestsWithoutKeyAreServedAsConfigured(t *testing.T) {
	start := func(what string) *client {
		return newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: what}) }).dial()
	}
	const bare = "GET /a/./b?c HTTP/1.1\r\nHost: h\r\n\r\n"

	c := start("local")
	c.send(bare)
	res, body := c.answer("GET")
	if body != "GET /a/./b?c " || res.Header.Get("Saw-Shardway-Shard") != "" || res.Header.Get("Saw-Shardway-Node") != "a" {
		t.Errorf("local: %q %v", body, res.Header)
	}

	c = start("hash-path")
	c.send(bare)
	if res, _ = c.answer("GET"); res.Header.Get("Saw-Shardway-Key") != "/a/b" {
		t.Errorf("hash-path: key %q", res.Header.Get("Saw-Shardway-Key"))
	}

	c = start("cookie")
	c.send(bare)
	res, _ = c.answer("GET")
	cookies := cookiesOf(t, res)
	if len(cookies) != 1 || cookies[0].Name != "Shardway-Key" || len(cookies[0].Value) != 32 || !cookies[0].HttpOnly ||
		cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].Path != "/" {
		t.Fatalf("cookie: %v", res.Header)
	}
	key := res.Header.Get("Saw-Shardway-Key")
	c.send("GET / HTTP/1.1\r\nHost: h\r\nCookie: Shardway-Key=%s\r\n\r\n", cookies[0].Value)
	res, _ = c.answer("GET")
	if res.Header.Get("Saw-Shardway-Key") != key || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("cookie, again: %v", res.Header)
	}
}

// With the source none, any node serves a request in which no earlier source has a key. A gateway
// forwards it to a node with an app.
func TestRequestsOfSourceNoneAreServedByAnyNode(t *testing.T) {
	spec := shardkey.Spec{
		Sources: []string{"none"},
		Routes: []shardkey.Route{
			{Prefix: "/rooms", Sources: []string{"path:2"}}, {Prefix: "/mixed", Sources: []string{"header:X-Tenant", "mint:POST", "none"}},
		},
	}
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, spec) })
			c := front.dial()
			for _, tt := range []struct {
				line, headers string
				status        int
				key           string // the key that the app gets, or "minted"
			}{
				{"GET /x", "", 200, ""},
				{"GET /x/../y", "", 400, ""},
				{"GET /rooms/r", "", 200, "r"},
				{"GET /rooms", "", 400, ""},
				{"GET /mixed", "", 200, ""},
				{"GET /mixed", "X-Tenant: alice\r\n", 200, "alice"},
				{"GET /mixed", "X-Tenant: alice\r\nX-Tenant: bob\r\n", 400, ""},
				{"POST /mixed", "", 200, "minted"},
			} {
				c.send("%s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n%s\r\n", tt.line, tt.headers)
				res, body := c.answer("GET")
				key := res.Header.Get("Saw-Shardway-Key")
				if minted.MatchString(key) {
					key = "minted"
				}
				hasShard := res.Header.Get("Saw-Shardway-Shard") != ""
				if res.StatusCode != tt.status || key != tt.key || hasShard != (tt.key != "") {
					t.Errorf("%s %q: %d %s, key %q", tt.line, tt.headers, res.StatusCode, body, key)
				}
			}
		})
	}
	for _, sources := range [][]string{{"none", "ip"}, {"none", "none"}, {"none", "mint"}, {"mint", "none"}, {"ip", "none", "host"}, {"mint:POST", "none"}} {
		if _, err := shardkey.New(shardkey.Spec{Sources: sources}); err == nil {
			t.Errorf("%v is accepted", sources)
		}
	}
}

func cookiesOf(t *testing.T, res *reply) []*http.Cookie {
	t.Helper()
	var list []*http.Cookie
	for _, line := range res.Header.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

func TestAllKeyErrorsAreReported(t *testing.T) {
	_, err := shardkey.New(shardkey.Spec{
		Sources:      []string{"heder:X", "path:0", "header:a b", "query:", "ip:x", "host"},
		Routes:       []shardkey.Route{{Prefix: "x", Sources: []string{"nope"}}, {Prefix: "/y"}, {Prefix: "/a;b", Sources: []string{"host"}}, {Prefix: "/c/../d", Sources: []string{"host"}}},
		OnMissingKey: "guess",
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"heder", "path:0", "a b", "query:", "ip:x", `"x"`, "nope", `"/y"`, "guess", `"/a;b"`, `"/c/../d"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not name %q: %v", part, err)
		}
	}
}

func TestTrustedProxiesAreAddedTo(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
		o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"ip"}})
	})
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 9.9.9.9, 1.2.3.4\r\nX-Forwarded-For: 10.1.1.1\r\n" +
		"X-Forwarded-Host: outer\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 8443\r\nX_Forwarded_For: 6.6.6.6\r\nX_Forwarded_Port: 1\r\nX-Real-IP: 1.2.3.4\r\nX_Real_IP: 6.6.6.6\r\n\r\n")
	res, _ := c.answer("GET")
	for name, want := range map[string]string{
		"X-Forwarded-For": "9.9.9.9, 1.2.3.4, 10.1.1.1, 127.0.0.1", "X-Forwarded-Host": "outer", "X-Forwarded-Proto": "https", "Shardway-Key": "1.2.3.4",
		// A trusted proxy writes names with -. A name with _ was set by its client.
		"X-Forwarded-Port": "8443", "X_Forwarded_For": "", "X_Forwarded_Port": "", "X-Real-Ip": "1.2.3.4", "X_Real_Ip": "",
	} {
		if got := strings.Join(res.Header.Values("Saw-"+name), "|"); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestProbePathIsAnsweredByTheNode(t *testing.T) {
	ready := true
	n := newNode(t, "a", "", func(o *proxy.Options) {
		o.ProbePath, o.Probe = "/healthz", func() (bool, string) { return ready, "no lease" }
	})
	c := n.dial()
	for _, want := range []int{200, 503} {
		c.send("GET /healthz?x HTTP/1.1\r\nHost: h\r\n\r\n")
		if res, body := c.answer("GET"); res.StatusCode != want {
			t.Errorf("probe = %d %s", res.StatusCode, body)
		}
		ready = false
	}
}

func TestTableRoutes(t *testing.T) {
	want := func(s int) route.Route {
		switch s % 3 {
		case 0:
			return route.Route{Kind: route.Local, Epoch: uint64(s % 7)}
		case 1:
			return route.Route{Kind: route.Remote, Node: strconv.Itoa(s % 5), Epoch: 3}
		}
		return route.Route{Kind: route.Queued, Reason: route.ReasonMoving}
	}
	tab := tableOf(100, want)
	if tab.Shards() != 100 || tab.Generation() != 5 || tab.Committed() != 6 || tab.Proposed() != 7 {
		t.Errorf("table = %d shards, %d %d %d", tab.Shards(), tab.Generation(), tab.Committed(), tab.Proposed())
	}
	for s := range 100 {
		if got := *tab.Route(shard(s)); got != want(s) {
			t.Errorf("Route(%d) = %v, want %v", s, got, want(s))
		}
	}
}

func TestNonScalarClaimIsReported(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"jwt:aud", "header:X-Tenant"}})
	})
	c := n.dial()
	for claims, want := range map[string]string{
		`{"aud":["a","b"]}`: `the claim \"aud\" is an array, and a key is a string`,
		`{"aud":{"a":1}}`:   `the claim \"aud\" is an object, and a key is a string`,
		`{"sub":"a"}`:       `"looked for jwt:aud, header:X-Tenant; send the key there, or name its place with --key, or set --on-missing-key"`,
	} {
		c.send("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", jwt(claims))
		res, body := c.answer("GET")
		wantStatus(t, res, body, 400, "no-key")
		if !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", claims, body, want)
		}
	}
}

// specOf returns a Spec with key sources for all paths.
func specOf(sources ...string) shardkey.Spec { return shardkey.Spec{Sources: sources} }
