package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
)

// A key that the node and the app interpret differently has two owners: the node routes by one shard,
// and the app changes data of the other. PHP, Rails and Django use the last of several values,
// servlets remove parameters, IIS accepts backslashes, and frameworks handle dots and slashes
// differently.
func TestAmbiguousKeysAreRejected(t *testing.T) {
	spec := shardkey.Spec{Routes: []shardkey.Route{
		{Prefix: "/rooms", Sources: []string{"path:2"}},
		{Prefix: "/q", Sources: []string{"query:user"}},
		{Prefix: "/c", Sources: []string{"cookie:sid"}},
		{Prefix: "/php", Sources: []string{"cookie:my_sid"}},
		{Prefix: "/h", Sources: []string{"header:X-Tenant"}},
		{Prefix: "/j", Sources: []string{"jwt:sub"}},
		{Prefix: "/plain", Sources: []string{"host"}},
		{Prefix: "/plain/x", Sources: []string{"path:3"}},
		{Prefix: "/both", Sources: []string{"host"}},
		{Prefix: "/Both", Sources: []string{"path:2"}},
		{Prefix: "/default", Sources: []string{"header:X-Shard-Key"}},
		{Prefix: "/caf%C3%A9", Sources: []string{"path:2"}},
	}}
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, spec) })
	c := n.dial()
	for _, tc := range []struct{ target, lines string }{
		{"/q?user=alice&user=bob", ""},
		{"/q?user=alice&us%65r=bo%62", ""},
		{"/q?user=a&user=&user=b&user=a", ""},
		{"/q?user=alice;user=bob", ""},
		{"/q?user=alice;x=1", ""},
		{"/q?user=alice&x=1;us%65r=bob", ""},
		{"/q?x=1;user=alice", ""},
		{"/q?user=;alice", ""}, // no key for a parser that splits at semicolons
		{"/q?user=a%+", ""},    // half an escape, then + or a space
		{"/c", "Cookie: sid=alice; sid=bob\r\n"},
		{"/c", "Cookie: sid=alice\r\nCookie: a=b; sid=bob\r\n"},
		// Most parsers remove spaces around the equals sign, and Python splits cookies at them.
		{"/c", "Cookie: sid =bob; sid=alice\r\n"},
		{"/c", "Cookie: sid=alice; sid\t= bob\r\n"},
		{"/c", "Cookie: sid = alice\r\n"},
		{"/c", "Cookie: sid= alice\r\n"},
		{"/c", "Cookie: sid=alice x=1\r\n"},
		{"/c", "Cookie: sid=alice; y=1 sid=bob\r\n"},
		{"/c", "Cookie: sid=alice\r\nCookie: y sid =bob\r\n"},
		{"/c", "Cookie: y=1 sid=bob\r\n"},
		{"/c", "Cookie: y sid=\"a b\"\r\n"},
		// Express, Django and Flask remove Unicode white space: of UTF-8 or of Latin-1.
		{"/c", "Cookie: sid=alice; \xa0sid=bob\r\n"},
		{"/c", "Cookie: sid=alice; \u00a0sid\u2003=bob\r\n"},
		{"/c", "Cookie: \ufeffsid=bob\r\n"},
		{"/c", "Cookie: sid=bob\xa0\r\n"},
		{"/c", "Cookie: sid=\x85bob\r\n"},
		{"/c", "Cookie: sid=\u3000bob\r\n"},
		// CGI.pm splits at commas, ASP.NET ignores case, and PHP replaces characters.
		{"/c", "Cookie: a=b,sid=bob; sid=alice\r\n"},
		{"/c", "Cookie: sid=alice,sid=bob\r\n"},
		{"/c", "Cookie: sid=alice; SID=bob\r\n"},
		{"/c", "Cookie: Sid=bob\r\nCookie: sid=alice\r\n"},
		{"/c", "Cookie: sid=alice; sid[0]=bob\r\n"},
		{"/php", "Cookie: my.sid=bob; my_sid=alice\r\n"},
		{"/php", "Cookie: my_sid=alice; my[sid=bob\r\n"},
		{"/h", "X-Tenant: alice\r\nX_Tenant: bob\r\n"},
		{"/h", "X-Tenant: alice\r\nX.Tenant: bob\r\n"},
		{"/j", "Authorization: Bearer " + jwt(`{"sub":"a"}`) + "\r\nAuthorization: Bearer " + jwt(`{"sub":"b"}`) + "\r\n"},
		// The app would not receive the field that the node routed by.
		{"/h", "Connection: x-tenant\r\nX-Tenant: alice\r\n"},
		{"/h", "Connection: X_Tenant\r\nX-Tenant: alice\r\nX_Tenant: alice\r\n"},
		{"/c", "Connection: Cookie\r\nCookie: sid=alice\r\n"},
		{"/j", "Connection: Authorization\r\nAuthorization: Bearer " + jwt(`{"sub":"a"}`) + "\r\n"},
		// Dot segments change all segments before them, wherever they are.
		{"/rooms/./alice", ""},
		{"/rooms/bob/../alice", ""},
		{"/rooms/bob/%2e%2E/alice", ""},
		{"/../rooms/alice", ""},
		{"/rooms/alice/x/.", ""},
		{"/rooms/alice/%2E%2e", ""},
		{"/rooms/alice/..;/..;x/bob", ""},
		{"/rooms/alice/x%2f..%5c..", ""},
		{`/rooms/alice/..\..\bob`, ""},
		{"/x/../plain", ""},
		// Other special characters only affect the segments up to the key's segment.
		{"/rooms//alice", ""},
		{"//rooms/alice", ""},
		{"/rooms//", ""},
		{"/rooms/a%2Fb", ""},
		{"/rooms/alice%2f", ""},
		{"/rooms%2Falice", ""},
		{`/rooms/a\b`, ""},
		{"/rooms/a%5Cb", ""},
		{"/rooms/alice;v=1", ""},
		{"/rooms/alice%3bv=1", ""},
		{"/rooms;x/alice", ""},
		{"/rooms/;/alice", ""},
		// A prefix of the routes decides where the key is extracted.
		{"/plain;x/a", ""},
		{"/plain%2fa", ""},
		{"//plain/a", ""},
		{`/plain\a`, ""},
		// Express and ASP.NET ignore case.
		{"/Rooms/alice", ""},
		{"/%52ooms/alice", ""},
		{"/PLAIN", ""},
		{"/plain/X", ""},
		{"/plain;x", ""},
	} {
		c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s\r\n", tc.target, tc.lines)
		if res, body := c.answer("GET"); res.StatusCode != 400 || res.Header.Get("Shardway-Error") != "bad-request" {
			t.Errorf("%s %q: %d %s %q, want 400 bad-request", tc.target, tc.lines, res.StatusCode, body, res.Header.Get("Saw-Shardway-Key"))
		}
	}
	for target, key := range map[string]string{
		"/rooms/alice/": "alice", "/rooms/alice//x": "alice", "/rooms/alice/x;y": "alice", "/rooms/a.b/..x": "a.b", "/rooms/...": "...", "/plain/a;b//c%2fd": "h",
		"/plainly;x": "k", "/Plainly": "k", "/both/a": "h", "/Both/a": "a", "/DEFAULT/a": "k", "/Rooms.x/a": "k", "/q?user=alice&user=%61lice&x=y": "alice",
		"/q?a;b=c&user=alice&d=;e": "alice", "/q?user=a%3Bb": "a;b", "/caf%c3%a9/alice": "alice",
	} {
		c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", target)
		if res, body := c.answer("GET"); res.Header.Get("Saw-Shardway-Key") != key {
			t.Errorf("%s: %d %s, key %q, want %q", target, res.StatusCode, body, res.Header.Get("Saw-Shardway-Key"), key)
		}
	}
}

// These cookies are unusual, but each app that finds the cookie reads the same value.
func TestUnusualCookiesAreAccepted(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"cookie:sid"}}) })
	c := n.dial()
	for cookies, key := range map[string]string{
		"sid=alice; SID=alice": "alice", "sid=a,b": "a,b", "sid=a,sid": "a,sid", `sid="a,sid=b"`: `"a,sid=b"`, "xsid=b; sid=a; sidx=c; sid.x=d": "a",
		"sid=caf\u00e9": "caf%C3%A9", "sid=\u00e0": "%C3%A0", "\u00e0=1; sid=a": "a", "sid=a; x=1,y=2": "a", "sid=a\u00a0b": "a%C2%A0b",
	} {
		c.send("GET / HTTP/1.1\r\nHost: h\r\nCookie: %s\r\n\r\n", cookies)
		if res, body := c.answer("GET"); res.Header.Get("Saw-Shardway-Key") != key {
			t.Errorf("%q: %d %s, key %q, want %q", cookies, res.StatusCode, body, res.Header.Get("Saw-Shardway-Key"), key)
		}
	}
}

// The Shardway-Key header distinguishes é from %C3%A9. Once, the app received the same text for both
// keys, although each had its own owner.
func TestShardwayKeyIsDecodedUnambiguously(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"query:k"}}) })
			c := front.dial()
			seen := make(map[string]string)
			for _, key := range []string{"é", "%C3%A9", "%25C3%25A9", "a%b", "a%", "%", "a b", " a ", "a+b", "\r\n", "\x00"} {
				c.send("GET /?k=%s HTTP/1.1\r\nHost: h\r\n\r\n", url.QueryEscape(key))
				res, _ := c.answer("GET")
				text := res.Header.Get("Saw-Shardway-Key")
				if got, err := url.PathUnescape(text); err != nil || got != key {
					t.Errorf("the key %q is told as %q, which is %q, %v", key, text, got, err)
				}
				if other, ok := seen[text]; ok {
					t.Errorf("the keys %q and %q are both told as %q", key, other, text)
				}
				seen[text] = key
			}
		})
	}
}

// A browser sends the preflight of a request without the key header, and sends the request only after
// the preflight was answered.
func TestPreflightsNeedNoKey(t *testing.T) {
	const preflight = "OPTIONS /a HTTP/1.1\r\nHost: h\r\nOrigin: http://x\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-shard-key\r\n%s\r\n"
	app := webApp(t, echo)
	gateway, owner := pair(t, app)
	for name, n := range map[string]*node{"owner": owner, "gateway": gateway} {
		c := n.dial()
		c.send(preflight, "")
		res, body := c.answer("OPTIONS")
		if res.StatusCode != 200 || body != "OPTIONS /a " {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
		if got := res.Header["Saw-Shardway-Shard"]; got != nil || res.Header["Saw-Shardway-Epoch"] != nil || res.Header["Saw-Shardway-Key"] != nil {
			t.Errorf("%s: headers of a shard that it has not: %v", name, res.Header)
		}
		if got := res.Header.Get("Saw-Shardway-Node"); got != "owner" {
			t.Errorf("%s: Shardway-Node %q", name, got)
		}
		c.send(preflight, "X-Shard-Key: k\r\n") // with a key, the preflight is routed like any request with this key
		if res, _ = c.answer("OPTIONS"); res.Header.Get("Saw-Shardway-Key") != "k" {
			t.Errorf("%s: %v", name, res.Header)
		}
		// No other request without a key is served like this.
		c.send("OPTIONS /a HTTP/1.1\r\nHost: h\r\n\r\n")
		res, body = c.answer("OPTIONS")
		wantStatus(t, res, body, 400, "no-key")
		c.send("GET /a HTTP/1.1\r\nHost: h\r\nAccess-Control-Request-Method: POST\r\n\r\n")
		res, body = c.answer("GET")
		wantStatus(t, res, body, 400, "no-key")
	}
	// A gateway has no app for a request without a key, but forwards a preflight to a node that has
	// one.
	for _, n := range []*node{gateway, owner} {
		n.Apply(proxy.Settings{Keys: keysOf(t, shardkey.Spec{OnMissingKey: "local"})})
		c := n.dial()
		c.send(preflight, "")
		if res, body := c.answer("OPTIONS"); res.StatusCode != 200 || res.Header.Get("Saw-Shardway-Node") != "owner" {
			t.Errorf("on-missing-key: local, %s: %d %s", n.id, res.StatusCode, body)
		}
		c.send("OPTIONS /a HTTP/1.1\r\nHost: h\r\n\r\n")
		res, body := c.answer("OPTIONS")
		if n == owner {
			wantStatus(t, res, body, 200, "")
		} else {
			wantStatus(t, res, body, 400, "no-key")
		}
	}
	hashed := newNode(t, "b", app, func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "hash-path"}) }).dial()
	hashed.send(preflight, "")
	if res, _ := hashed.answer("OPTIONS"); res.Header.Get("Saw-Shardway-Key") != "/a" {
		t.Errorf("on-missing-key is not heeded: %v", res.Header)
	}
}

// At a gateway whose map assigns no owners yet, a preflight waits like any other request. If the
// chosen node has no lease, the gateway asks again.
func TestPreflightsOfGatewaysWait(t *testing.T) {
	gateway, owner := pair(t, webApp(t, echo))
	owner.lease.Store(0)
	c := gateway.dial()
	c.send("OPTIONS /a HTTP/1.1\r\nHost: h\r\nAccess-Control-Request-Method: POST\r\n\r\n")
	until(t, "waiting", func() bool { return gateway.room.Stats().Waiting == 1 })
	gateway.swap(1, 2, held(route.ReasonMoving))
	owner.lease.Store(int64(1 << 40))
	gateway.swap(2, 2, remote("owner", 2))
	owner.swap(2, 2, local(2))
	if res, body := c.answer("OPTIONS"); res.StatusCode != 200 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

func TestStickyCookieIsSecureUnderTLS(t *testing.T) {
	sticky := func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "cookie"}) }
	trusting := func(o *proxy.Options) {
		sticky(o)
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	app := webApp(t, echo)
	for name, tc := range map[string]struct {
		c      *client
		lines  string
		secure bool
	}{
		"plain":                {newNode(t, "a", app, sticky).dial(), "", false},
		"plain, as if":         {newNode(t, "a", app, sticky).dial(), "X-Forwarded-Proto: https\r\n", false},
		"TLS":                  {nodeUnderTLS(t, app, sticky).dialTLS(), "", true},
		"TLS at a proxy":       {newNode(t, "a", app, trusting).dial(), "X-Forwarded-Proto: HTTPS, http\r\n", true},
		"plain at a proxy":     {newNode(t, "a", app, trusting).dial(), "X-Forwarded-Proto: http, https\r\n", false},
		"a proxy says nothing": {newNode(t, "a", app, trusting).dial(), "X_Forwarded_Proto: https\r\n", false},
	} {
		tc.c.send("GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", tc.lines)
		res, _ := tc.c.answer("GET")
		if cookies := cookiesOf(t, res); len(cookies) != 1 || cookies[0].Secure != tc.secure {
			t.Errorf("%s: %v, want Secure %v", name, cookies, tc.secure)
		}
	}
}

// A path without the configured segment has no key. Neither its last segment nor the prefix of the
// route is used.
func TestShortPathsHaveNoKey(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"path:3"}, Routes: []shardkey.Route{{Prefix: "/rooms", Sources: []string{"path:2"}}}})
	})
	c := n.dial()
	for target, key := range map[string]string{
		"/": "", "/a": "", "/a/b": "", "/a/b/": "", "/a/b?c=/c": "", "/rooms": "", "/rooms/": "", "*": "",
		"/a/b/c": "c", "/a/b/c/": "c", "/a/b/c/d": "c", "/rooms/r": "r",
	} {
		method := "GET"
		if target == "*" {
			method = "OPTIONS"
		}
		c.send("%s %s HTTP/1.1\r\nHost: h\r\n\r\n", method, target)
		res, body := c.answer(method)
		if key == "" {
			wantStatus(t, res, body, 400, "no-key")
		} else if got := res.Header.Get("Saw-Shardway-Key"); got != key {
			t.Errorf("%s: %d %s, key %q, want %q", target, res.StatusCode, body, got, key)
		}
	}
}

// Some servers, such as fasthttp, add the trailers of a request to its headers. So the app receives no trailer with
// the name of a header that contains a key, on any route. It would find a key there that the node does not use.
func TestKeysInTrailersAreDropped(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					var names []string
					for name := range req.Trailer {
						names = append(names, name)
					}
					slices.Sort(names)
					_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTrailers: %s\r\n\r\n", strings.Join(names, " "))
				}
			}), func(o *proxy.Options) {
				o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "hash-path", Sources: []string{"header:X-Tenant", "host+header:X-Room"}, Routes: []shardkey.Route{{Prefix: "/mcp", Sources: []string{"wrap:header:Session-Id"}}}})
			})
			c := front.dial()
			for _, trailers := range []string{
				"X-Tenant: evil\r\nX-Sum: 1\r\n", "x-tenant: evil\r\nX-Sum: 1\r\nX-TENANT: worse\r\n", "X_Tenant: evil\r\nX-Sum: 1\r\n", "X-Sum: 1\r\nX-Room: evil\r\nSession.Id: v.sw-x\r\n",
			} {
				for _, lines := range []string{"", "X-Tenant: a\r\n"} {
					c.send("POST / HTTP/1.1\r\nHost: h\r\n%sTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n%s\r\n", lines, trailers)
					if res, body := c.answer("POST"); res.StatusCode != 200 || res.Header.Get("Trailers") != "X-Sum" {
						t.Errorf("%q: %d %s, the app gets %q", trailers, res.StatusCode, body, res.Header.Get("Trailers"))
					}
				}
			}
		})
	}
}
