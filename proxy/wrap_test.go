package proxy_test

import (
	"bufio"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/keysource"
	"shardway/proxy"
	"shardway/proxy/shardkey"
	"shardway/proxy/wrapkey"
)

// wrapID and otherID are keys that Shardway has created.
var (
	wrapID  = string(wrapkey.ID{1, 2, 3}.AppendKey(nil))
	otherID = string(wrapkey.ID{4, 5, 6}.AppendKey(nil))
)

const wrapSecret = "0123456789abcdef0123456789abcdef"

// wrapping configures wrapped sources for a cluster with a secret.
func wrapping(t *testing.T, spec shardkey.Spec) func(*proxy.Options) {
	t.Helper()
	return func(o *proxy.Options) {
		o.Keys = keysOf(t, spec)
		o.WrapKeys = func() [][]byte { return [][]byte{[]byte(wrapSecret)} }
	}
}

// wrap returns value with a suffix for a source such as wrap:cookie:sid, under wrapSecret.
func wrap(t *testing.T, source, key, value string) string {
	t.Helper()
	return wrapUnder(t, wrapSecret, source, key, value)
}

// wrapUnder is wrap with another secret.
func wrapUnder(t *testing.T, secret, source, key, value string) string {
	t.Helper()
	parsed, err := keysource.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	codec := wrapkey.NewCodec(func() [][]byte { return [][]byte{[]byte(secret)} })
	return string(codec.AppendSuffix([]byte(value), &wrapkey.NewFields([]keysource.Source{parsed})[0], []byte(key), []byte(value)))
}

// sessionApp creates sessions like an app that knows nothing of Shardway: it sets a cookie and a header, and
// reports the header lines that it has received.
func sessionApp(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Saw-Cookie", strings.Join(r.Header.Values("Cookie"), " | "))
	w.Header().Set("Saw-Session", strings.Join(append(r.Header.Values("Session"), r.Header["Session_"]...), " | "))
	w.Header().Set("Saw-Key", r.Header.Get("Shardway-Key"))
	w.Header().Set("Saw-Minted", r.Header.Get("Shardway-Minted"))
	for _, line := range r.URL.Query()["cookie"] {
		w.Header().Add("Set-Cookie", line)
	}
	for _, line := range r.URL.Query()["session"] {
		w.Header().Add("Session", line)
	}
	if status := r.URL.Query().Get("status"); status == "304" {
		w.WriteHeader(http.StatusNotModified)
	}
}

var generatedKey = regexp.MustCompile(`^[0-9a-f]{32}$`)

// A client that has no session gets a key with the session id of the app. Each later request has this key, and the
// app receives its own session id only. The app may renew the id.
func TestWrappedSessionKeepsItsKey(t *testing.T) {
	spec := shardkey.Spec{Sources: []string{"wrap:cookie:sid", "wrap:header:Session"}}
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, sessionApp), wrapping(t, spec))
			c := front.dial()
			c.send("GET /?cookie=sid%%3Dv1%%3B%%20Path%%3D/ HTTP/1.1\r\nHost: h\r\n\r\n")
			res, _ := c.answer("GET")
			key := res.Header.Get("Saw-Key")
			if !generatedKey.MatchString(key) || res.Header.Get("Saw-Minted") != "1" {
				t.Fatalf("a request without a session: %v", res.Header)
			}
			cookie := cookiesOf(t, res)[0]
			if !strings.HasPrefix(cookie.Value, "v1.sw-") || cookie.Path != "/" {
				t.Fatalf("the session id leaves as %q", cookie)
			}
			for i, renewed := range []string{"", "v2", "v3"} {
				target := "/"
				if renewed != "" {
					target = "/?cookie=sid%3D" + renewed
				}
				before, _, _ := strings.Cut(cookie.Value, ".sw-")
				c.send("GET %s HTTP/1.1\r\nHost: h\r\nCookie: a=b; sid=%s; c=d\r\n\r\n", target, cookie.Value)
				res, _ = c.answer("GET")
				if got := res.Header; got.Get("Saw-Cookie") != "a=b; sid="+before+"; c=d" || got.Get("Saw-Key") != key || got.Get("Saw-Minted") != "" {
					t.Fatalf("request %d: %v", i, got)
				}
				if renewed != "" {
					cookie = cookiesOf(t, res)[0]
				}
			}
			// The header gets the key of the cookie, so one client has one key.
			c.send("GET /?session=s1 HTTP/1.1\r\nHost: h\r\nCookie: sid=%s\r\n\r\n", cookie.Value)
			res, _ = c.answer("GET")
			session := res.Header.Get("Session")
			c.send("GET / HTTP/1.1\r\nHost: h\r\nSESSION: %s\r\n\r\n", session)
			if res, _ = c.answer("GET"); res.Header.Get("Saw-Key") != key || res.Header.Get("Saw-Session") != "s1" {
				t.Errorf("by the header %q: %v", session, res.Header)
			}
		})
	}
}

// The app in the process of the node gets the session id without a suffix, too.
func TestHandlerGetsWrappedSessionWithoutSuffix(t *testing.T) {
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, func(ctx *fasthttp.RequestCtx) {
				ctx.Response.Header.Set("Saw-Cookie", string(ctx.Request.Header.Peek("Cookie")))
				ctx.Response.Header.Add("Set-Cookie", "sid=v2; Path=/")
			}, wrapping(t, shardkey.Spec{Sources: []string{"wrap:cookie:sid"}}))
			c := front.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nCookie: sid=%s\r\nContent-Length: 2\r\n\r\nhi", wrap(t, "wrap:cookie:sid", wrapID, "v1"))
			res, _ := c.answer("POST")
			if res.Header.Get("Saw-Cookie") != "sid=v1" || res.Header.Get("Set-Cookie") != "sid="+wrap(t, "wrap:cookie:sid", wrapID, "v2")+"; Path=/" {
				t.Errorf("%v", res.Header)
			}
		})
	}
}

// A front other than HTTP/1 removes and adds suffixes, too.
func TestInboundSessionIsWrapped(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, sessionApp), wrapping(t, shardkey.Spec{Sources: []string{"wrap:cookie:sid"}}))
			c := front.memoryRequest("GET", "/?cookie=sid%3Dv2", 0, "Cookie: sid="+wrap(t, "wrap:cookie:sid", wrapID, "v1"))
			if res, _ := c.answer(); res.Header.Get("Saw-Cookie") != "sid=v1" || res.Header.Get("Set-Cookie") != "sid="+wrap(t, "wrap:cookie:sid", wrapID, "v2") {
				t.Errorf("%v", res.Header)
			}
		})
	}
}

// Two apps, or the node and the app, must not read one request as two keys, and no client can create a
// suffix or attach one to another session id.
func TestWrappedValuesAreReadUnambiguously(t *testing.T) {
	const cookie, header = "wrap:cookie:sid", "wrap:header:Session"
	spec := shardkey.Spec{OnMissingKey: "hash-path", Routes: []shardkey.Route{
		{Prefix: "/c", Sources: []string{cookie}},
		{Prefix: "/h", Sources: []string{header}},
		{Prefix: "/both", Sources: []string{cookie, header}},
		{Prefix: "/later", Sources: []string{"header:X-Tenant", cookie}},
		{Prefix: "/next", Sources: []string{cookie, "query:user"}},
		{Prefix: "/other", Sources: []string{"host"}},
	}}
	n := newNode(t, "a", webApp(t, sessionApp), wrapping(t, spec))
	c := n.dial()
	key, otherKey := wrapID, otherID
	valid, second, sameKey := wrap(t, cookie, wrapID, "v"), wrap(t, cookie, otherID, "w"), wrap(t, cookie, wrapID, "w")
	session, otherSession := wrap(t, header, wrapID, "v"), wrap(t, header, otherID, "v")
	suffix := strings.TrimPrefix(valid, "v")
	forged := wrapUnder(t, "fedcba9876543210fedcba9876543210", cookie, otherID, "v")
	named, namedW := wrap(t, cookie, "acme", "v"), wrap(t, cookie, "acme", "w")
	namedSession, namedSuffix := wrap(t, header, "acme", "v"), strings.TrimPrefix(named, "v")
	forgedName := wrapUnder(t, "fedcba9876543210fedcba9876543210", cookie, "acme", "v")
	var many []string
	for i := range 9 {
		many = append(many, "sid="+wrap(t, cookie, wrapID, strconv.Itoa(i)))
	}
	const refused, minted = "refused", "minted"
	for _, tc := range []struct{ path, lines, key, cookie, session string }{
		{"/c", "Cookie: sid=" + valid, key, "sid=v", ""},
		{"/c", `Cookie: sid="` + valid + `"`, key, `sid="v"`, ""},
		{"/c", "Cookie: a=b;sid=" + valid + " ;c=d", key, "a=b;sid=v ;c=d", ""},
		{"/c", "Cookie: a=b\r\nCookie: sid=" + valid + "\r\nCookie: c=d", key, "a=b | sid=v | c=d", ""},
		{"/c", "Cookie: sid=" + valid + "; sid=" + valid, key, "sid=v; sid=v", ""},
		{"/c", "Cookie: sid=" + valid + "; sid=" + sameKey, key, "sid=v; sid=w", ""},
		{"/c", "Cookie: sid=; sid=" + valid, key, "sid=; sid=v", ""},
		{"/c", "cookie:sid=" + valid, key, "sid=v", ""},
		{"/c", "", minted, "", ""},
		{"/c", "Cookie: a=b", minted, "a=b", ""},
		{"/c", "Cookie: SID=" + valid, minted, "SID=" + valid, ""},
		{"/c", "Cookie: sid=", minted, "sid=", ""},
		{"/c", `Cookie: sid=""`, minted, `sid=""`, ""},
		// A value without a valid suffix gives no key, and the app receives it as it is.
		{"/c", "Cookie: sid=v", "/c", "sid=v", ""},
		{"/c", "Cookie: sid=" + suffix, "/c", "sid=" + suffix, ""},
		{"/c", "Cookie: sid=" + forged, "/c", "sid=" + forged, ""},
		{"/c", "Cookie: sid=w" + suffix, "/c", "sid=w" + suffix, ""},
		{"/c", "Cookie: sid=" + session, "/c", "sid=" + session, ""},
		{"/c", "Cookie: sid=" + valid + suffix, "/c", "sid=" + valid + suffix, ""},
		{"/c", "Cookie: sid=" + valid + "x", "/c", "sid=" + valid + "x", ""},
		{"/c", `Cookie: sid="` + valid, "/c", `sid="` + valid, ""},
		{"/c", "Cookie: sid=" + strings.ToUpper(valid), "/c", "sid=" + strings.ToUpper(valid), ""},
		{"/c", "Cookie: sid=v; sid=w", "/c", "sid=v; sid=w", ""},
		// The app could take either value.
		{"/c", "Cookie: sid=" + valid + "; sid=" + second, refused, "", ""},
		{"/c", "Cookie: sid=" + valid + "\r\nCookie: sid=" + second, refused, "", ""},
		{"/c", "Cookie: sid=" + valid + "; sid=v", refused, "", ""},
		{"/c", "Cookie: sid=v; sid=" + valid, refused, "", ""},
		{"/c", "Cookie: sid=" + valid + "; sid=" + forged, refused, "", ""},
		{"/c", "Cookie: " + strings.Join(many, "; "), refused, "", ""},
		{"/c", "Cookie: sid =" + valid, refused, "", ""},
		{"/c", "Cookie: sid= " + valid, refused, "", ""},
		{"/c", "Cookie: x=1 sid=" + valid, refused, "", ""},
		{"/c", "Cookie: sid=" + valid + " x=1", refused, "", ""},
		{"/c", "Cookie: sid=" + valid + "; x sid=v", refused, "", ""},
		{"/c", "Cookie: sid=" + valid + "; SID=v", refused, "", ""},
		{"/c", "Cookie: Sid=" + second + "; sid=" + valid, refused, "", ""},
		{"/c", "Cookie: sid=" + valid + "; \xa0sid=v", refused, "", ""},
		{"/c", "Cookie: \u3000sid=" + valid, refused, "", ""},
		{"/c", "Cookie: sid=" + valid + "\u2003", refused, "", ""},
		{"/c", "Cookie: sid=" + valid + "; sid[0]=v", refused, "", ""},
		{"/c", "Cookie: sid=" + valid + "; a=b,sid=v", refused, "", ""},
		{"/c", "Connection: cookie\r\nCookie: sid=" + valid, refused, "", ""},
		{"/h", "Session: " + session, key, "", "v"},
		{"/h", "session:\t" + session + " ", key, "", "v"},
		{"/h", "Session: " + session + "\r\nSession: " + session, key, "", "v | v"},
		{"/h", "", minted, "", ""},
		{"/h", "Session: v", "/h", "", "v"},
		{"/h", "Session: " + valid, "/h", "", valid},
		{"/h", "Session: " + session + ", " + session, "/h", "", session + ", " + session},
		{"/h", "Session: " + session + "\r\nSession: " + otherSession, refused, "", ""},
		{"/h", "Session: " + session + "\r\nSession: v", refused, "", ""},
		{"/h", "Connection: session\r\nSession: " + session, refused, "", ""},
		{"/both", "Cookie: sid=" + valid + "\r\nSession: " + session, key, "sid=v", "v"},
		{"/both", "Session: " + session, key, "", "v"},
		{"/both", "Cookie: sid=v\r\nSession: " + session, key, "sid=v", "v"},
		{"/both", "Cookie: sid=v", "/both", "sid=v", ""},
		{"/both", "", minted, "", ""},
		{"/both", "Cookie: sid=" + valid + "\r\nSession: " + otherSession, refused, "", ""},
		// An earlier source has the key. The app receives no suffix on any path.
		{"/later", "X-Tenant: t\r\nCookie: sid=" + valid, "t", "sid=v", ""},
		{"/later", "X-Tenant: t", "t", "", ""},
		{"/later", "Cookie: sid=" + second, otherKey, "sid=w", ""},
		{"/other", "Cookie: sid=" + valid + "\r\nSession: " + otherSession, "h", "sid=v", "v"},
		{"/other", "Cookie: sid=" + forged, "h", "sid=" + forged, ""},
		{"/other", "Cookie: " + strings.Join(many, "; "), refused, "", ""},
		{"/next?user=bob", "Cookie: sid=v", "bob", "sid=v", ""},
		{"/next?user=bob", "Cookie: sid=" + valid, key, "sid=v", ""},
		{"/next?user=bob", "", "bob", "", ""},
		{"/next", "", minted, "", ""},
		// The same rules apply to keys that the app has named.
		{"/c", "Cookie: sid=" + named, "acme", "sid=v", ""},
		{"/c", `Cookie: a=b; sid="` + named + `" ;c=d`, "acme", `a=b; sid="v" ;c=d`, ""},
		{"/c", "Cookie: sid=" + named + "; sid=" + namedW, "acme", "sid=v; sid=w", ""},
		{"/c", "Cookie: sid=" + forgedName, "/c", "sid=" + forgedName, ""},
		{"/c", "Cookie: sid=w" + namedSuffix, "/c", "sid=w" + namedSuffix, ""},
		{"/c", "Cookie: sid=" + namedSession, "/c", "sid=" + namedSession, ""},
		{"/c", "Cookie: sid=" + named + "x", "/c", "sid=" + named + "x", ""},
		{"/c", "Cookie: sid=" + named[:len(named)-1], "/c", "sid=" + named[:len(named)-1], ""},
		{"/c", "Cookie: sid=v.sn-", "/c", "sid=v.sn-", ""},
		{"/c", "Cookie: sid=v.sn-" + strings.Repeat("A", 3000), "/c", "sid=v.sn-" + strings.Repeat("A", 3000), ""},
		{"/c", "Cookie: sid=" + named + "; sid=" + valid, refused, "", ""},
		{"/c", "Cookie: sid=" + named + "; sid=v", refused, "", ""},
		{"/c", "Cookie: sid=" + named + "; SID=v", refused, "", ""},
		{"/both", "Cookie: sid=" + named + "\r\nSession: " + namedSession, "acme", "sid=v", "v"},
		{"/both", "Cookie: sid=" + named + "\r\nSession: " + session, refused, "", ""},
	} {
		if tc.lines != "" {
			tc.lines += "\r\n"
		}
		c.send("GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", tc.path, tc.lines)
		res, body := c.answer("GET")
		if tc.key == refused {
			if res.StatusCode != 400 || res.Header.Get("Shardway-Error") != "bad-request" {
				t.Errorf("%s %.200q: %d %s, key %q, want 400", tc.path, tc.lines, res.StatusCode, body, res.Header.Get("Saw-Key"))
			}
			continue
		}
		got := res.Header.Get("Saw-Key")
		isKey := got == tc.key || tc.key == minted && generatedKey.MatchString(got) && res.Header.Get("Saw-Minted") == "1"
		if !isKey || res.Header.Get("Saw-Cookie") != tc.cookie || res.Header.Get("Saw-Session") != tc.session {
			t.Errorf("%s %.200q: %d %s %v, want key %q", tc.path, tc.lines, res.StatusCode, body, res.Header, tc.key)
		}
	}
	// Without a policy for requests without a key, a session id from before Shardway is refused.
	n.Apply(proxy.Settings{Keys: keysOf(t, shardkey.Spec{Sources: []string{cookie}})})
	c = n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nCookie: sid=v\r\n\r\n")
	res, body := c.answer("GET")
	wantStatus(t, res, body, 400, "no-key")
}

// A response gets the key of the request only. A request whose key does not come from Shardway leaves the
// session id as it is, except that a suffix in the request stays valid.
func TestResponseGetsSuffixOfRequest(t *testing.T) {
	const source = "wrap:cookie:sid"
	spec := shardkey.Spec{OnMissingKey: "hash-path", Routes: []shardkey.Route{
		{Prefix: "/c", Sources: []string{source}},
		{Prefix: "/later", Sources: []string{"header:X-Tenant", source}},
		{Prefix: "/other", Sources: []string{"host"}},
		{Prefix: "/mint", Sources: []string{"mint"}},
	}}
	n := newNode(t, "a", webApp(t, sessionApp), wrapping(t, spec))
	c := n.dial()
	valid := "Cookie: sid=" + wrap(t, source, wrapID, "v") + "\r\n"
	renewed := "sid=" + wrap(t, source, wrapID, "new")
	for _, tc := range []struct{ path, lines, want string }{
		{"/c", valid, renewed},
		{"/other", valid, renewed},
		{"/mint", valid, renewed},
		{"/later", valid + "X-Tenant: t\r\n", renewed},
		{"/c", "Cookie: sid=v\r\n", "sid=new"},
		{"/other", "", "sid=new"},
		{"/mint", "", "sid=new"},
		{"/later", "X-Tenant: t\r\n", "sid=new"},
		{"/later", "X-Tenant: " + otherID + "\r\n", "sid=new"},
	} {
		c.send("GET %s?cookie=sid%%3Dnew&session=s HTTP/1.1\r\nHost: h\r\n%s\r\n", tc.path, tc.lines)
		res, _ := c.answer("GET")
		if got := res.Header.Get("Set-Cookie"); got != tc.want || res.Header.Get("Session") != "s" {
			t.Errorf("%s %q: %q, want %q", tc.path, tc.lines, got, tc.want)
		}
	}
	const removal = "sid=v; Max-Age=0"
	c.send("GET /c?cookie=%s HTTP/1.1\r\nHost: h\r\n%s\r\n", url.QueryEscape(removal), valid)
	if res, _ := c.answer("GET"); res.Header.Get("Set-Cookie") != removal {
		t.Errorf("%v", res.Header)
	}
	c.send("GET /c?cookie=sid%%3Dnew&status=304 HTTP/1.1\r\nHost: h\r\n%s\r\n", valid)
	if res, _ := c.answer("GET"); res.StatusCode != 304 || res.Header.Get("Set-Cookie") != "sid=new" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if n := metric(t, n, "shardway_oversized_cookies_total"); n != 0 {
		t.Errorf("%v cookies are counted as too long", n)
	}
	long := "sid=" + strings.Repeat("x", 4090)
	c.send("GET /c?cookie=%s HTTP/1.1\r\nHost: h\r\n\r\n", strings.ReplaceAll(long, "=", "%3D"))
	if res, _ := c.answer("GET"); res.Header.Get("Set-Cookie") != long {
		t.Errorf("%.80s", res.Header.Get("Set-Cookie"))
	}
	if n := metric(t, n, "shardway_oversized_cookies_total"); n != 1 {
		t.Errorf("%v cookies are counted as too long, want 1", n)
	}
}

// With mint, a client whose session id has no valid suffix gets a new key with the next session id of the app.
func TestOldSessionGetsKeyFromMint(t *testing.T) {
	const source = "wrap:cookie:sid"
	n := newNode(t, "a", webApp(t, sessionApp), wrapping(t, shardkey.Spec{Sources: []string{source, "mint"}}))
	c := n.dial()
	c.send("GET /?cookie=sid%%3Dnew HTTP/1.1\r\nHost: h\r\nCookie: sid=old\r\n\r\n")
	res, _ := c.answer("GET")
	key := res.Header.Get("Saw-Key")
	if !generatedKey.MatchString(key) || res.Header.Get("Saw-Cookie") != "sid=old" || res.Header.Get("Saw-Minted") != "1" || res.Header.Get("Set-Cookie") != "sid="+wrap(t, source, key, "new") {
		t.Errorf("%v", res.Header)
	}
}

// A preflight carries no cookies and creates no session.
func TestPreflightCreatesNoWrappedKey(t *testing.T) {
	n := newNode(t, "a", webApp(t, sessionApp), wrapping(t, shardkey.Spec{Sources: []string{"wrap:cookie:sid"}}))
	c := n.dial()
	c.send("OPTIONS / HTTP/1.1\r\nHost: h\r\nOrigin: http://x\r\nAccess-Control-Request-Method: POST\r\n\r\n")
	if res, _ := c.answer("OPTIONS"); res.StatusCode != 200 || res.Header.Get("Saw-Key") != "" || res.Header.Get("Saw-Minted") != "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}

// While a secret is replaced, suffixes of both secrets are valid, and responses use the first one.
func TestSuffixesSurviveRotation(t *testing.T) {
	const source, next = "wrap:cookie:sid", "fedcba9876543210fedcba9876543210"
	var keys atomic.Pointer[[][]byte]
	use := func(secrets ...string) {
		var list [][]byte
		for _, secret := range secrets {
			list = append(list, []byte(secret))
		}
		keys.Store(&list)
	}
	use(wrapSecret)
	n := newNode(t, "a", webApp(t, sessionApp), func(o *proxy.Options) {
		o.Keys = keysOf(t, shardkey.Spec{Sources: []string{source}, OnMissingKey: "hash-path"})
		o.WrapKeys = func() [][]byte { return *keys.Load() }
	})
	c := n.dial()
	ask := func(value string) *reply {
		c.send("GET /?cookie=sid%%3Dnew HTTP/1.1\r\nHost: h\r\nCookie: sid=%s\r\n\r\n", value)
		res, _ := c.answer("GET")
		return res
	}
	old := wrap(t, source, wrapID, "v")
	for i, secrets := range [][]string{{wrapSecret}, {wrapSecret, next}, {next, wrapSecret}} {
		use(secrets...)
		res := ask(old)
		if want := "sid=" + wrapUnder(t, secrets[0], source, wrapID, "new"); res.Header.Get("Saw-Cookie") != "sid=v" || res.Header.Get("Set-Cookie") != want {
			t.Errorf("step %d: %v, want %s", i, res.Header, want)
		}
	}
	use(next)
	if res := ask(old); res.Header.Get("Saw-Key") != "/" || res.Header.Get("Saw-Cookie") != "sid="+old || res.Header.Get("Set-Cookie") != "sid=new" {
		t.Errorf("after the secret was removed: %v", res.Header)
	}
}

// tenantApp is sessionApp for an app that names the key of a request. The query contains the key.
func tenantApp(rejected *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("tenant")
		if key, _ := url.PathUnescape(r.Header.Get("Shardway-Key")); key != name {
			rejected.Add(1)
			w.Header().Set("Shardway-Key", url.PathEscape(name))
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
		sessionApp(w, r)
	}
}

// If the app names the key of a request, the session id in the response leaves with this key. So later requests
// reach their owner directly.
func TestSessionGetsKeyNamedByApp(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			var rejected atomic.Int32
			front, _ := start(t, webApp(t, tenantApp(&rejected)), wrapping(t, shardkey.Spec{Sources: []string{"wrap:cookie:sid"}}))
			c := front.dial()
			cookie := ""
			for i, tenant := range []string{"acme", "a b/é%;=\"", strings.Repeat("t", 255), "AB" + otherID[2:]} {
				target := "/?tenant=" + url.QueryEscape(tenant)
				c.send("GET %s&cookie=sid%%3Dv%d HTTP/1.1\r\nHost: h\r\n%s\r\n", target, i, cookie)
				res, body := c.answer("GET")
				if res.StatusCode != 200 || rejected.Load() != int32(i+1) {
					t.Fatalf("%q: %d %s, rejected %d times", tenant, res.StatusCode, body, rejected.Load())
				}
				value := cookiesOf(t, res)[0].Value
				encoded, isNamed := strings.CutPrefix(value, "v"+strconv.Itoa(i)+".sn-")
				if decoded, err := base64.RawURLEncoding.DecodeString(encoded); !isNamed || err != nil || strings.Contains(string(decoded), tenant) {
					t.Fatalf("the session id leaves as %q", value)
				}
				cookie = "Cookie: sid=" + value + "\r\n"
				for range 3 {
					c.send("GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", target, cookie)
					res, body = c.answer("GET")
					if res.StatusCode != 200 || rejected.Load() != int32(i+1) || res.Header.Get("Saw-Cookie") != "sid=v"+strconv.Itoa(i) {
						t.Fatalf("%q: %d %s, rejected %d times, %v", tenant, res.StatusCode, body, rejected.Load(), res.Header)
					}
				}
			}
		})
	}
}

// A session id never gets a key that the client then cannot use: one that is too long, or one that differs from
// the key of another session id of the client.
func TestSessionKeepsKeyThatAppHasReplaced(t *testing.T) {
	const cookie, header = "wrap:cookie:sid", "wrap:header:Session"
	spec := shardkey.Spec{OnMissingKey: "hash-path", Routes: []shardkey.Route{{Prefix: "/c", Sources: []string{cookie}}, {Prefix: "/both", Sources: []string{cookie, header}}, {Prefix: "/other", Sources: []string{"host"}}}}
	var rejected atomic.Int32
	n := newNode(t, "a", webApp(t, tenantApp(&rejected)), wrapping(t, spec))
	c := n.dial()
	valid := "Cookie: sid=" + wrap(t, cookie, wrapID, "v") + "\r\n"
	long := strings.Repeat("t", 256)
	for _, tc := range []struct{ path, lines, tenant, cookieKey, sessionKey string }{
		{"/c", "", "acme", "acme", ""},
		{"/c", valid, "acme", "acme", ""},
		{"/c", "Cookie: sid=v\r\n", "acme", "acme", ""},
		{"/c", valid, long, wrapID, ""},
		{"/both", "", "acme", "acme", "acme"},
		{"/both", "Session: v\r\n", "acme", "acme", "acme"},
		{"/both", valid, "acme", wrapID, wrapID}, // a response that sets one of them would leave two keys
		{"/both", "Session: " + wrap(t, header, otherID, "v") + "\r\n", "acme", otherID, otherID},
		{"/other", "", "acme", "", ""},
		{"/other", valid, "acme", wrapID, ""},
	} {
		c.send("GET %s?tenant=%s&cookie=sid%%3Dnew&session=new HTTP/1.1\r\nHost: h\r\n%s\r\n", tc.path, tc.tenant, tc.lines)
		res, body := c.answer("GET")
		want := func(source, key string) string {
			if key == "" {
				return "new"
			}
			return wrap(t, source, key, "new")
		}
		if res.StatusCode != 200 || res.Header.Get("Set-Cookie") != "sid="+want(cookie, tc.cookieKey) || res.Header.Get("Session") != want(header, tc.sessionKey) {
			t.Errorf("%s %q %.10s: %d %s %v", tc.path, tc.lines, tc.tenant, res.StatusCode, body, res.Header)
		}
	}
}

// A request that is sent again has no suffix either.
func TestRetryHasNoSuffix(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			seen := make(chan string, 10)
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					seen <- req.Header.Get("Cookie") + " " + req.Header.Get("Shardway-Key")
					if len(seen) == 1 {
						return // the first attempt breaks
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}), wrapping(t, shardkey.Spec{Sources: []string{"wrap:cookie:sid"}}))
			c := front.dial()
			c.send("PUT / HTTP/1.1\r\nHost: h\r\nCookie: sid=%s\r\nContent-Length: 0\r\n\r\n", wrap(t, "wrap:cookie:sid", wrapID, "v"))
			if res, body := c.answer("PUT"); res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			want := "sid=v " + wrapID
			if first, second := <-seen, <-seen; first != want || second != want {
				t.Errorf("sent as %q, then as %q, want %q", first, second, want)
			}
		})
	}
}

// A resumed WebSocket repeats the request without the suffix.
func TestResumedWebSocketHasNoSuffix(t *testing.T) {
	inSockets(t, func() *chat { return &chat{} }, func(w *socketTest) {
		c := w.front.dial()
		c.send("GET /chat HTTP/1.1\r\nHost: h\r\nCookie: a=b; sid=%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
			wrap(w.T, "wrap:cookie:sid", wrapID, "v"))
		if res, _ := c.head("GET"); res.StatusCode != http.StatusSwitchingProtocols {
			w.Fatalf("%s", res.Status)
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
			if head.Get("Cookie") != "a=b; sid=v" || head.Get("Shardway-Key") != wrapID {
				w.Errorf("upstream connection %d: %v", i, head)
			}
		}
	}, wrapping(t, shardkey.Spec{Sources: []string{"wrap:cookie:sid"}}))
}

// A resumed event stream repeats the request without the suffix.
func TestResumedStreamHasNoSuffix(t *testing.T) {
	for _, local := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newStreams(t, local, wrapping(t, shardkey.Spec{Sources: []string{"wrap:cookie:sid"}}))
			l := w.opens("GET /events HTTP/1.1\r\nHost: h\r\nCookie: a=b; sid="+wrap(t, "wrap:cookie:sid", wrapID, "v")+"; c=d\r\n\r\n").begins(resumable, "id: 1\n\n")
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
				if !strings.Contains(head, "\r\nCookie: a=b; sid=v; c=d\r\n") || !strings.Contains(head, "\r\nShardway-Key: "+wrapID+"\r\n") {
					t.Errorf("upstream connection %d: %q", i, head)
				}
			}
		})
	}
}

// The error lists every source that is invalid or contradicts another one.
func TestInvalidWrappedSourcesAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"wrap": "needs a cookie or a header", "wrap:": "needs a cookie or a header", "wrap:query:a": "needs a cookie or a header", "wrap:cookie": "name of a cookie",
		"wrap:cookie:a b": "name of a cookie", "wrap:header:": "name of a header", "wrap:header:Set-Cookie": "change its meaning", "wrap:header:authorization": "change its meaning",
		"wrap:header:X_Forwarded_For": "change its meaning", "wrap:header:Shardway-Key": "change its meaning", "wrap:cookie:Shardway-Key": "itself sets",
		"host+wrap:cookie:sid": "cannot be joined",
	} {
		if _, err := shardkey.New(shardkey.Spec{Sources: []string{text}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, routes := range [][]shardkey.Route{
		{{Prefix: "/a", Sources: []string{"cookie:sid"}}},
		{{Prefix: "/a", Sources: []string{"host+cookie:sid"}}},
		{{Prefix: "/a", Sources: []string{"jwt:sub@cookie:sid"}}},
		{{Prefix: "/a", Sources: []string{"wrap:header:X-Id"}}, {Prefix: "/b", Sources: []string{"host", "header:x_id"}}},
	} {
		if _, err := shardkey.New(shardkey.Spec{Sources: []string{"wrap:cookie:sid"}, Routes: routes}); err == nil || !strings.Contains(err.Error(), "would read the suffix") {
			t.Errorf("%v: %v", routes, err)
		}
	}
}
