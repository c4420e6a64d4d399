package proxy_test

import (
	"bufio"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardway/keysource"
	"shardway/proxy"
	"shardway/proxy/shardkey"
)

// Whether a response sets the sticky cookie depends on its directives for shared caches.
func TestStickyCookieIsNotGivenToSharedCaches(t *testing.T) {
	later, before := time.Now().Add(time.Hour).UTC().Format(time.RFC1123), time.Now().Add(-time.Hour).UTC().Format(time.RFC1123)
	later, before = strings.Replace(later, "UTC", "GMT", 1), strings.Replace(before, "UTC", "GMT", 1)
	const yes, no, private = "cookie", "no cookie", "cookie, private"
	cases := []struct{ lines, want string }{
		{"", private},
		{"Cache-Control: no-cache\r\n", private},
		{"Cache-Control: max-age=0\r\n", private},
		{"Cache-Control: no-transform\r\n", private},
		{"Cache-Control: private=\"X-A, public\"\r\n", private},
		{"Expires: " + before + "\r\n", private},
		{"Expires: 0\r\n", private},
		{"Cache-Control: no-store\r\n", yes},
		{"Cache-Control: private, max-age=60\r\n", yes},
		{"cache-control: max-age=60\r\nCACHE-CONTROL: Private\r\n", yes},
		{"Cache-Control: no-store\r\nExpires: " + later + "\r\n", yes},
		{"Cache-Control: no-store\r\nCache-Control: public\r\n", yes},
		{"Cache-Control: private\r\nCache-Control: max-age=60\r\n", yes},
		{"Cache-Control: public\r\n", no},
		// Connection removes the Cache-Control line before the response reaches the cache.
		{"Cache-Control: no-store\r\nConnection: cache-control\r\n", private},
		{"Cache-Control: private\r\nCDN-Cache-Control: no-store\r\nConnection: close, cache-control\r\n", private},
		// An added directive would be inside the unterminated quoted string.
		{"Cache-Control: no-cache, x=\"a\r\n", no},
		{"Cache-Control: x=\"a\\\"\r\n", no},
		{"Cache-Control: no-store, x=\"a\r\n", yes},
		{"Cache-Control: PUBLIC, max-age=3600\r\n", no},
		{"Cache-Control: max-age=60\r\n", no},
		{"Cache-Control: max-age=\"60\"\r\n", no},
		{"Cache-Control: max-age=99999999999999999999\r\n", no},
		{"Cache-Control: no-cache, s-maxage=0\r\n", no},
		{"Cache-Control: must-revalidate\r\n", no},
		{"Expires: " + later + "\r\n", no},
		{"Cache-Control: private\r\nCDN-Cache-Control: max-age=60\r\n", no},
		{"Cache-Control: private\r\ncdn-cache-control: no-cache\r\n", no},
		{"Cache-Control: private\r\nCDN-Cache-Control: max-age=0\r\n", no},
		{"Cache-Control: private\r\nCDN-Cache-Control: stale-if-error=60\r\n", no},
		{"Cache-Control: private\r\nCDN-Cache-Control: max-age=60, no-store=?0\r\n", no},
		{"Cache-Control: private\r\nCDN-Cache-Control: no-store, no-store=?0\r\n", no},
		{"Cache-Control: private\r\nCDN-Cache-Control: private=\"X-A\"\r\n", no},
		{"Cache-Control: private\r\nCDN-Cache-Control: no-store\r\nExample-CDN-Cache-Control: max-age=60\r\n", no},
		{"Cache-Control: private\r\nCDN-Cache-Control: no-store\r\n", yes},
		{"Cache-Control: private\r\nCDN-Cache-Control: private\r\n", yes},
		{"Cache-Control: public\r\nCDN-Cache-Control: no-store\r\n", no},
		{"CDN-Cache-Control: no-store\r\n", private},
		{"CDN-Cache-Control: no-store\r\nExpires: " + later + "\r\n", no},
		{"Surrogate-Control: max-age=60\r\n", no},
		{"Cache-Control: private\r\nSurrogate-Control: content=\"ESI/1.0\"\r\n", no},
		{"Cache-Control: private\r\nSurrogate-Control: private\r\n", no},
		{"Cache-Control: private\r\nSurrogate-Control: no-store, content=\"ESI/1.0\"\r\n", yes},
		{"Cache-Control: private, no-store\r\nEdge-Control: !no-store, max-age=1d\r\n", no},
		{"Cache-Control: private\r\nEdge-Control: cache-maxage=7d\r\n", no},
		{"Cache-Control: private\r\nEdge-Control: no-store\r\n", yes},
		{"Cache-Control: private\r\nEdge-Control: bypass-cache\r\n", yes},
		{"Cache-Control: private\r\nCDN-Cache-Control: bypass-cache\r\n", no},
		{"Cache-Control: private\r\nX-Accel-Expires: 60\r\n", no},
		{"Cache-Control: private\r\nX-Accel-Expires: @4102444800\r\n", no},
		{"Cache-Control: private\r\nx-accel-expires: 00\r\n", yes},
		{"X-Accel-Expires: 0\r\n", private},
	}
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			lines := make(chan string, 1)
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					if _, err := readHead(r); err != nil {
						return
					}
					if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+<-lines+"\r\n"); err != nil {
						return
					}
				}
			}), func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "cookie"}) })
			c := front.dial()
			for _, tc := range cases {
				lines <- tc.lines
				c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				res, _ := c.answer("GET")
				got := no
				if cookies := res.Header.Values("Set-Cookie"); len(cookies) == 1 && strings.HasPrefix(cookies[0], "Shardway-Key=") {
					got = yes
				} else if len(cookies) > 0 {
					t.Errorf("%q: Set-Cookie %q", tc.lines, cookies)
				}
				passed := strings.Count(strings.ToLower("\n"+tc.lines), "\ncache-control:")
				if strings.Contains(tc.lines, "Connection:") {
					passed = 0
				}
				if values := res.Header.Values("Cache-Control"); len(values) > passed {
					got += ", " + values[len(values)-1]
				}
				if got != tc.want {
					t.Errorf("%q: %s, want %s", tc.lines, got, tc.want)
				}
			}
		})
	}
}

// A shared cache adds the fields of a 304 to its stored response, so a 304 sets no sticky cookie. The
// next other response sets it.
func TestNotModifiedSetsNoStickyCookie(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			lines := make(chan string, 1)
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					if _, err := readHead(r); err != nil {
						return
					}
					if _, err := io.WriteString(conn, <-lines); err != nil {
						return
					}
				}
			}), func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "cookie"}) })
			c := front.dial()
			for _, tc := range []struct {
				response string
				cookies  int
			}{
				{"HTTP/1.1 304 Not Modified\r\n\r\n", 0},
				{"HTTP/1.1 304 Not Modified\r\nCache-Control: private\r\n\r\n", 0},
				{"HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 0\r\n\r\n", 1},
			} {
				lines <- tc.response
				c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				res, _ := c.answer("GET")
				if got := res.Header.Values("Set-Cookie"); len(got) != tc.cookies {
					t.Errorf("%q: Set-Cookie %q, want %d", tc.response, got, tc.cookies)
				}
			}
		})
	}
}

// The cookie has the configured name and attributes, also if another node forwards the request, and a
// cookie of the default name is not read any more.
func TestStickyCookieHasConfiguredNameAndAttributes(t *testing.T) {
	scope := keysource.CookieScope{Name: "app-key", Path: "/app", Domain: "example.com"}
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo), func(o *proxy.Options) {
				o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "cookie", Cookie: scope})
				o.StickyCookie = keysource.StickyCookie{CookieScope: scope, SameSite: keysource.SameSiteNone, MaxAge: time.Hour, AlwaysSecure: true, AllowScripts: true}
			})
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nCookie: Shardway-Key=%s\r\n\r\n", strings.Repeat("a", 32))
			res, _ := c.answer("GET")
			lines := res.Header.Values("Set-Cookie")
			if len(lines) != 1 {
				t.Fatalf("Set-Cookie = %q", lines)
			}
			value, attributes, _ := strings.Cut(strings.TrimPrefix(lines[0], "app-key="), "; ")
			if want := "max-age=3600; domain=example.com; path=/app; secure; SameSite=None"; attributes != want || len(value) != 32 || value == strings.Repeat("a", 32) {
				t.Errorf("Set-Cookie = %q, want app-key=KEY; %s", lines[0], want)
			}
			c.send("GET / HTTP/1.1\r\nHost: h\r\nCookie: app-key=%s; Shardway-Key=%[2]s; App-Key=%[2]s\r\n\r\n", value, strings.Repeat("b", 32))
			res, _ = c.answer("GET")
			if key := res.Header.Get("Saw-Shardway-Key"); key != value || len(res.Header.Values("Set-Cookie")) > 0 {
				t.Errorf("key %q, cookies %q, want the key %q", key, res.Header.Values("Set-Cookie"), value)
			}
		})
	}
}

// The default cookie is the same as before it could be configured.
func TestDefaultStickyCookie(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "cookie"}) })
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	res, _ := c.answer("GET")
	lines := res.Header.Values("Set-Cookie")
	if len(lines) != 1 || !regexp.MustCompile(`^Shardway-Key=[0-9a-f]{32}; path=/; HttpOnly; SameSite=Lax$`).MatchString(lines[0]) {
		t.Errorf("Set-Cookie = %q", lines)
	}
}

// The name and the scope come from the key configuration of the cluster, so all nodes set and read the
// same cookie, even while their own settings differ. The other attributes are those of the node.
func TestStickyCookieScopeIsThatOfTheCluster(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "cookie", Cookie: keysource.CookieScope{Name: "local"}})
		o.StickyCookie.MaxAge = time.Minute
	})
	n.rekey(parsedKeys(t, `{"key":["header:x-shard-key"],"on_missing_key":"cookie","cookie":{"name":"__Host-of-all"}}`), 2, 2)
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nCookie: local=%s\r\n\r\n", strings.Repeat("c", 32))
	res, _ := c.answer("GET")
	lines := res.Header.Values("Set-Cookie")
	if len(lines) != 1 || !regexp.MustCompile(`^__Host-of-all=[0-9a-f]{32}; max-age=60; path=/; HttpOnly; secure; SameSite=Lax$`).MatchString(lines[0]) {
		t.Errorf("Set-Cookie = %q", lines)
	}
}
