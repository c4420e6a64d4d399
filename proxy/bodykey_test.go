package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
)

// readingBodies configures sources that read the body, after a header and before the query.
func readingBodies(t *testing.T) func(*proxy.Options) {
	t.Helper()
	return func(o *proxy.Options) {
		o.BodyBuffer = 1 << 10
		o.Keys = keysOf(t, shardkey.Spec{
			Sources: []string{"header:X-Room", "json:/room/id", "form:room", "query:room"},
			Routes:  []shardkey.Route{{Prefix: "/json", Sources: []string{"json:/room/id"}}},
		})
	}
}

const (
	typeJSON = "Content-Type: application/json\r\n"
	typeForm = "Content-Type: application/x-www-form-urlencoded\r\n"
)

// chunked returns a body in chunks of one byte.
func chunked(body string) string {
	var b strings.Builder
	for i := range len(body) {
		_, _ = fmt.Fprintf(&b, "1\r\n%c\r\n", body[i])
	}
	return b.String() + "0\r\n\r\n"
}

// A key in a body is found in each framing, and the body arrives at the app unchanged.
func TestKeysAreFoundInBodies(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo), readingBodies(t))
			c := front.dial()
			for _, tc := range []struct{ target, lines, body, key string }{
				{"/", typeJSON, `{"room":{"id":"alice"}}`, "alice"},
				{"/", "Content-Type: Application/JSON; charset=\"UTF-8\"\r\n", `{"room":{"id":"\u00e9"}}`, "%C3%A9"},
				{"/", "Content-Type: application/vnd.acme.room+json;charset=utf-8; v=1\r\n", `{"room":{"id":7}}`, "7"},
				{"/", "Content-Encoding: identity\r\n" + typeJSON, `{"room":{"id":true}}`, "true"},
				{"/", typeJSON, `[{"room":{"id":"a"}},{"room":{"id":"a"}}]`, "a"},
				{"/", typeForm, "x=1&room=a+%62", "a b"},
				{"/", typeForm, "room=a&ro%6fm=%61", "a"},
				{"/", typeForm, "room=%c3%a9%25&x=%zz%00%ff", "%C3%A9%25"},
				{"/?room=%61&x=1", typeForm, "room=a", "a"},
				{"/?room=", typeForm, "room=a", "a"},
				{"/?room=q", typeJSON, `{"room":{"id":"a"}}`, "a"},
				// An earlier source has a key, so nothing of the body matters.
				{"/", "X-Room: head\r\n" + typeJSON, `{"room":{"id":"a","id":"b"}}`, "head"},
				{"/", "X-Room: head\r\nContent-Type: application/json, text/plain\r\n", `{`, "head"},
				// Without a key in the body, the next source counts.
				{"/?room=q", typeJSON, `{"room":{"id":null}}`, "q"},
				{"/?room=q", typeJSON, `{"room":{"id":{}}}`, "q"},
				{"/?room=q", typeJSON, `{"room":{"id":""}}`, "q"},
				{"/?room=q", typeForm, "room=", "q"},
				{"/?room=q", "Content-Type: text/plain\r\n", `{"room":{"id":"a"}}`, "q"},
				{"/?room=q", "", `{"room":{"id":"a"}}`, "q"},
				{"/?room=q", "Content-Encoding: gzip\r\n" + typeJSON, `{"room":{"id":"a"}}`, "q"},
				{"/?room=q", typeJSON, "", "q"},
				// A body of 1024 bytes fits, and a larger one has no key. In chunks, it must be smaller.
				{"/?room=q", typeJSON, `{"room":{"id":"a"}}` + strings.Repeat(" ", 1004), "a"},
				{"/?room=q", typeJSON, `{"room":{"id":"a"}}` + strings.Repeat(" ", 1006), "q"},
				{"/?room=q", typeJSON, `{"room":{"id":"a"},"room":0}` + strings.Repeat(" ", 5000), "q"},
				{"/?room=q", typeJSON, `{"room":{"id":"a"}}` + strings.Repeat(" ", 200<<10), "q"},
			} {
				for _, framing := range []string{"length", "chunks", "continue"} {
					body, lines := tc.body, fmt.Sprintf("Content-Length: %d\r\n", len(tc.body))
					if framing == "chunks" {
						body, lines = chunked(tc.body), "Transfer-Encoding: chunked\r\n"
					}
					if framing == "continue" {
						lines += "Expect: 100-continue\r\n"
					}
					c.send("POST %s HTTP/1.1\r\nHost: h\r\n%s%s\r\n", tc.target, tc.lines, lines)
					if framing != "continue" {
						go func() { _, _ = io.WriteString(c, body) }()
					} else if tc.body != "" {
						if res, _ := c.head("POST"); res.StatusCode != 100 {
							t.Fatalf("%s: %d before the body", tc.body, res.StatusCode)
						}
						go func() { _, _ = io.WriteString(c, body) }()
					}
					res, got := c.answer("POST")
					if key := res.Header.Get("Saw-Shardway-Key"); key != tc.key || got != "POST "+tc.target+" "+tc.body {
						t.Fatalf("%s %q %.60q: %d %.200s, key %q, want %q", framing, tc.lines, tc.body, res.StatusCode, got, key, tc.key)
					}
				}
			}
		})
	}
}

// A joined key can have parts in the body. The body is read only if all other parts have a key.
func TestJoinedKeysInBodies(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			arrived := make(chan string, 1)
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Part") != "" {
					part := make([]byte, 3)
					_, _ = io.ReadFull(r.Body, part)
					arrived <- string(part)
				}
				echo(w, r)
			}), func(o *proxy.Options) {
				o.BodyBuffer = 1 << 10
				o.Keys = keysOf(t, shardkey.Spec{
					Sources: []string{"json:/room/id+header:X-Org", "header:X-Org+form:room", "query:room"},
					Routes:  []shardkey.Route{{Prefix: "/two", Sources: []string{"json:/a+json:/b+host"}}, {Prefix: "/none", Sources: []string{"json:/a+host"}}},
				})
			})
			c := front.dial()
			const org, refused = "X-Org: acme\r\n", "refused"
			for _, tc := range []struct{ target, lines, body, key string }{
				{"/", org + typeJSON, `{"room":{"id":"tea"}}`, "tea+acme"},
				{"/", org + typeJSON, `{"room":{"id":"a+b%"}}`, "a%252Bb%2525+acme"},
				{"/", org + typeForm, "room=a%2Bb", "acme+a%252Bb"},
				{"/two", typeJSON, `{"a":1,"b":"x+y"}`, "1+x%252By+h"},
				{"/?room=q", org + typeJSON, `{"room":{}}`, "q"},
				{"/?room=q", org + typeJSON, `{"room":{"id":"a"}}` + strings.Repeat(" ", 1006), "q"},
				{"/?room=q", org + "Content-Type: text/plain\r\n", `{"room":{"id":"a"}}`, "q"},
				{"/?room=q", typeJSON, `{"room":{"id":"tea"}}`, "q"},
				{"/?room=q", typeJSON, `{"room":{"id":"a","id":"b"}}`, "q"}, // the body does not matter without X-Org
				{"/?room=q", org + typeJSON, `{"room":{"id":"a","id":"b"}}`, refused},
				{"/?room=q", org + "X_Org: other\r\n" + typeJSON, `{"room":{"id":"a"}}`, refused},
				{"/?room=q", org + typeForm, "room=a&room=b", refused},
				{"/?room=q", org + typeForm, "room=a", refused}, // some apps read the query instead
			} {
				for _, isChunked := range []bool{false, true} {
					body, lines := tc.body, fmt.Sprintf("Content-Length: %d\r\n", len(tc.body))
					if isChunked {
						body, lines = chunked(tc.body), "Transfer-Encoding: chunked\r\n"
					}
					c.send("POST %s HTTP/1.1\r\nHost: h\r\n%s%s\r\n", tc.target, tc.lines, lines)
					_, _ = io.WriteString(c, body)
					res, got := c.answer("POST")
					if tc.key == refused {
						wantStatus(t, res, got, 400, "bad-request")
						_ = c.Close()
						c = front.dial()
						continue
					}
					if key := res.Header.Get("Saw-Shardway-Key"); key != tc.key || got != "POST "+tc.target+" "+tc.body {
						t.Fatalf("%q %.60q: %d %.200s, key %q, want %q", tc.lines, tc.body, res.StatusCode, got, key, tc.key)
					}
				}
			}
			c.send("POST /none HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi")
			if res, body := c.answer("POST"); res.StatusCode != 400 || !strings.Contains(body, "not read because of its Content-Type") {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			// Without a key in the header, the body streams to the app, and is refused before its end if the header is
			// ambiguous.
			send := func(lines string) {
				c = front.dial()
				c.send("POST /?room=q HTTP/1.1\r\nHost: h\r\n%s%sTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", lines, typeJSON)
			}
			send("X-Part: 1\r\n")
			if part := <-arrived; part != "abc" {
				t.Errorf("%q", part)
			}
			c.send("3\r\ndef\r\n0\r\n\r\n")
			if res, body := c.answer("POST"); res.StatusCode != 200 || body != "POST /?room=q def" {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			send("X-Org: a\r\nX_Org: b\r\n")
			if res, _ := c.head("POST"); res.StatusCode != 400 {
				t.Errorf("%d, want 400", res.StatusCode)
			}
			_ = c.Close()
		})
	}
}

// A key that the app may read differently has two owners. Each of these requests is refused.
func TestAmbiguousBodiesAreRejected(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), readingBodies(t))
	const good = `{"room":{"id":"a"}}`
	for _, tc := range []struct{ lines, body string }{
		{typeJSON, `{"room":{"id":"a"},"room":{"id":"b"}}`},
		{typeJSON, `{"room":{"id":"a","i\u0064":"b"}}`},
		{typeJSON, `{"room":{"id":"a","ID":"b"}}`},
		{typeJSON, `{"x":{"y":1,"y":2},"room":{"id":"a"}}`},
		{typeJSON, good + good},
		{typeJSON, good + "\x00"},
		{typeJSON, "\ufeff" + good},
		{typeJSON, "{\x00\"\x00r\x00"},
		{typeJSON, "{\"room\":{\"id\":\"\xff\"}}"},
		{typeJSON, `{"room":{"id":"\ud800"}}`},
		{typeJSON, `{"room":{"id":1.0}}`},
		{typeJSON, `{"room":{"id":"a"},"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`},
		{typeJSON, `{"room":{"id":"a"}`},
		{typeJSON, `[{"room":{"id":"a"}},{"room":{"id":"b"}}]`},
		{typeJSON, `[{"room":{"id":"a"}},{}]`},
		{typeJSON, `[]`},
		{typeForm, "room=a&room=b"},
		{typeForm, "room=a;room=b"},
		{typeForm, "x=1;room=b"},
		{typeForm, "room=a%+"},
		{typeForm, "room=a\r\n"},
		{typeForm, "\ufeffroom=a"},
		{typeForm, "room=a&+room=b"},
		{typeForm, "room=a&Room=b"},
		{typeForm, "room=a&room[]=b"},
		{typeForm, "room%5B0%5D=b"},
		{typeForm, "room=a&room%00x=b"},
		{typeForm, "room=a%00x"},
		{typeForm, "room=%61%zz"},
		{typeForm, "room=a&room=%"},
		{typeForm, "room=a%ff"},
		{typeForm, "room=\xe9"},
		{typeForm, "room=a;room=%f"},
		{"Content-Type: multipart/form-data; boundary=x\r\n", "--x\r\nContent-Disposition: form-data; name=\"room\"\r\n\r\na\r\n--x--\r\n"},
		// Apps differ in which Content-Type counts and in how they parse it.
		{typeJSON + typeJSON, good},
		{typeJSON + typeForm, good},
		{"Content-Type: text/plain\r\n" + typeJSON, good},
		{"Content-Type:\r\n" + typeJSON, good},
		{"Content-Type: application/json, text/plain\r\n", good},
		{"Content-Type: text/plain, application/json\r\n", good},
		{"Content-Type: text/plain; x=application/json\r\n", good},
		{"Content-Type: text/json\r\n", good},
		{"Content-Type: application/json-rpc\r\n", good},
		{"Content-Type: json\r\n", good},
		{"Content-Type: application/json; charset=utf-16\r\n", good},
		{"Content-Type: application/json; charset=utf-7\r\n", good},
		{"Content-Type: application/json; charset=utf-8; charset=latin1\r\n", good},
		{"Content-Type: application/json; charset\r\n", good},
		{"Content-Type: application/json; x=\"a;b\"\r\n", good},
		{"Content-Type: application/ json\r\n", good},
		{"Content-Type: application/x-www-form-urlencoded; charset=ebcdic\r\n", "room=a"},
		{"Content-Type: application/x-www-form-urlencoded,\r\n", "room=a"},
		// The app would not receive the line by which the node read the body.
		{"Connection: Content-Type\r\n" + typeJSON, good},
		{"Connection: Content-Encoding\r\nContent-Encoding: gzip\r\n" + typeJSON, good},
		{typeJSON, `{"room":{"id":"` + strings.Repeat("x", 900) + `"},"room":1}`},
	} {
		for _, isChunked := range []bool{false, true} {
			c := n.dial()
			body, lines := tc.body, fmt.Sprintf("Content-Length: %d\r\n", len(tc.body))
			if isChunked {
				body, lines = chunked(tc.body), "Transfer-Encoding: chunked\r\n"
			}
			c.send("POST / HTTP/1.1\r\nHost: h\r\n%s%s\r\n%s", tc.lines, lines, body)
			if res, body := c.answer("POST"); res.StatusCode != 400 || res.Header.Get("Shardway-Error") != "bad-request" {
				t.Errorf("%q %.80q: %d %s, key %q, want 400 bad-request", tc.lines, tc.body, res.StatusCode, body, res.Header.Get("Saw-Shardway-Key"))
			}
			_ = c.Close()
		}
	}
}

// Servlets and Flask prefer the query to the form, Go and PHP ignore the form of a DELETE, and PHP prefers
// the form of a POST. So the key must not differ between them.
func TestFormAndQueryHaveOneKey(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), readingBodies(t))
	for _, method := range []string{"POST", "PUT", "DELETE", "GET"} {
		for _, query := range []string{"room=bob", "x=1&ro%6fm=bob", "room=alice&room=bob", "Room=bob", "room[]=bob", "x=1;room=bob"} {
			c := n.dial()
			c.send("%s /?%s HTTP/1.1\r\nHost: h\r\n%sContent-Length: 10\r\n\r\nroom=alice", method, query, typeForm)
			if res, body := c.answer(method); res.StatusCode != 400 || res.Header.Get("Shardway-Error") != "bad-request" {
				t.Errorf("%s %s: %d %s, key %q, want 400 bad-request", method, query, res.StatusCode, body, res.Header.Get("Saw-Shardway-Key"))
			}
			_ = c.Close()
		}
	}
}

// The end of a body in chunks may arrive after its last byte. It does not matter for the key: a body
// with as many bytes as the buffer has none, and a smaller one has its key as soon as it has ended.
func TestKeyDoesNotDependOnEndOfBody(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), readingBodies(t))
	const document = `{"room":{"id":"a"}}`
	for size, want := range map[int]string{1023: "a", 1024: "q", 1025: "q"} {
		for _, endsAtOnce := range []bool{true, false} {
			c := n.dial()
			body := document + strings.Repeat(" ", size-len(document))
			c.send("POST /?room=q HTTP/1.1\r\nHost: h\r\n%sTransfer-Encoding: chunked\r\n\r\n", typeJSON)
			chunk := fmt.Sprintf("%x\r\n%s\r\n", size, body)
			if endsAtOnce {
				c.send("%s0\r\n\r\n", chunk)
			} else {
				c.send("%s", chunk)
				c.send("0\r\n\r\n")
			}
			if res, _ := c.answer("POST"); res.Header.Get("Saw-Shardway-Key") != want {
				t.Errorf("%d bytes: key %q, want %q", size, res.Header.Get("Saw-Shardway-Key"), want)
			}
			_ = c.Close()
		}
	}
}

// A key in a body has a limit of its own, because each byte may take three in a header.
func TestLongKeysInBodiesAreRejected(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"json:/k", "form:k"}})
	})
	c := n.dial()
	for size, want := range map[int]int{2048: 200, 2049: 400, 60000: 400} {
		for lines, format := range map[string]string{typeJSON: `{"k":"%s"}`, typeForm: "k=%s"} {
			body := fmt.Sprintf(format, strings.Repeat("x", size))
			c.send("POST / HTTP/1.1\r\nHost: h\r\n%sContent-Length: %d\r\n\r\n%s", lines, len(body), body)
			if res, text := c.answer("POST"); res.StatusCode != want {
				t.Errorf("a key of %d bytes: %d %.200s", size, res.StatusCode, text)
			}
		}
	}
}

// The error response for a request without a key names the reason why the body was not read.
func TestMissingKeyResponseExplainsUnreadBody(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), readingBodies(t))
	for lines, want := range map[string]string{
		"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi":                                            "not read because of its Content-Type",
		typeJSON + "Content-Encoding: br\r\nContent-Length: 2\r\n\r\nhi":                                     "not read because it has a Content-Encoding",
		typeJSON + "Content-Length: 2000\r\n\r\n" + strings.Repeat(" ", 2000):                                "not read because it is larger than the buffer (--body-buffer)",
		typeJSON + "Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + strings.Repeat(" ", 2000) + "\r\n0\r\n\r\n": "not read because it is larger than the buffer (--body-buffer)",
		typeJSON + "Content-Length: 2\r\n\r\n{}":                                                             "looked for json:/room/id;",
	} {
		c := n.dial()
		c.send("POST /json HTTP/1.1\r\nHost: h\r\n%s", lines)
		res, body := c.answer("POST")
		if res.StatusCode != 400 || res.Header.Get("Shardway-Error") != "no-key" || !strings.Contains(body, want) {
			t.Errorf("%.80q: %d %s, want %q", lines, res.StatusCode, body, want)
		}
		_ = c.Close()
	}
}

// A body that no source reads streams to the app while the client still sends it.
func TestBodiesStreamIfEarlierSourceHasKey(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			arrived := make(chan string, 1)
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				part := make([]byte, 3)
				_, _ = io.ReadFull(r.Body, part)
				arrived <- string(part)
				_, _ = io.Copy(w, r.Body)
			}), readingBodies(t))
			c := front.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Room: a\r\n%sTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", typeJSON)
			if part := <-arrived; part != "abc" {
				t.Errorf("%q", part)
			}
			c.send("3\r\ndef\r\n0\r\n\r\n")
			if _, body := c.answer("POST"); body != "def" {
				t.Errorf("%q", body)
			}
		})
	}
}

// A request whose key is in the body is not admitted before the whole body has arrived, and a client that
// stops sending is rejected after the timeout of bodies.
func TestSlowBodiesWithKeyAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simNode(t, newSim(t), "a", simple, readingBodies(t), func(o *proxy.Options) { o.IdleTimeout = 5 * time.Second })
		for _, lines := range []string{"Content-Length: 20\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"} {
			c := n.dial()
			began := time.Now()
			c.send("POST / HTTP/1.1\r\nHost: h\r\n%s%s", typeJSON, lines)
			res, body := c.answer("POST")
			wantStatus(t, res, body, 408, "request-timeout")
			if took := time.Since(began); took != 5*time.Second || n.admitted.Load() != 0 {
				t.Errorf("after %v, with %d admitted", took, n.admitted.Load())
			}
			_ = c.Close()
		}
	})
}

// A client that disconnects within a body that contains the key leaves nothing behind.
func TestDisconnectWithinBodyWithKey(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), readingBodies(t))
	for _, lines := range []string{"Content-Length: 20\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"} {
		before := metric(t, n, "shardway_client_disconnects_total")
		c := n.dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\n%s%s", typeJSON, lines)
		_ = c.Close()
		until(t, "the disconnect is seen", func() bool { return metric(t, n, "shardway_client_disconnects_total") == before+1 })
	}
	until(t, "all buffers are given back", func() bool { return n.lent.Load() == 0 })
	if n.admitted.Load() != 0 {
		t.Errorf("%d requests were admitted", n.admitted.Load())
	}
}

// Bodies that are read for their keys share the memory limit of bodies, before any of them has a shard.
func TestBodiesWithKeysShareMemoryLimit(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"json:/k"}})
		o.MaxBodyTotal = 256 << 10
	})
	const open = `{"k":"a","x":"`
	used := func() float64 { return metric(t, n, "shardway_body_bytes") }
	shed := func() float64 { return metric(t, n, "shardway_shed_connections_total", "body") }
	var all []*client
	for range 16 {
		c, usedBefore, shedBefore := n.dial(), used(), shed()
		c.send("POST / HTTP/1.1\r\nHost: h\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s%s\r\n", typeJSON, len(open)+30<<10, open, strings.Repeat("x", 30<<10))
		all = append(all, c)
		until(t, "the body is counted", func() bool { return used() > usedBefore || shed() > shedBefore })
	}
	until(t, "bodies are shed", func() bool { return shed() > 0 })
	res, body := all[0].answer("POST")
	wantStatus(t, res, body, 408, "request-timeout")
	last := all[len(all)-1]
	last.send("2\r\n\"}\r\n0\r\n\r\n")
	if res, _ := last.answer("POST"); res.StatusCode != 200 || res.Header.Get("Saw-Shardway-Key") != "a" {
		t.Errorf("the last one: %d", res.StatusCode)
	}
}

// An event loop hands a request to a goroutine if its key may be in the body, also if the body has
// arrived. Other requests of the connection stay in the loop.
func TestBodiesWithKeysLeaveEventLoop(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"header:X-Shard-Key", "json:/room/id"}})
	})
	c := n.dialToLoop()
	for i := range 6 {
		key := fmt.Sprintf("k%d", i)
		body := fmt.Sprintf(`{"room":{"id":"%s"}}`, key)
		c.send("POST / HTTP/1.1\r\nHost: h\r\n%sContent-Length: %d\r\n\r\n%s", typeJSON, len(body), body)
		if res, got := c.answer("POST"); res.Header.Get("Saw-Shardway-Key") != key || got != "POST / "+body {
			t.Fatalf("%d %s, key %q", res.StatusCode, got, res.Header.Get("Saw-Shardway-Key"))
		}
	}
}

// A request whose key was in a body is sent again from the buffer.
func TestBodiesWithKeysAreSentAgain(t *testing.T) {
	ingress, owner := pair(t, webApp(t, echo), readingBodies(t))
	owner.refuse.Store(int32(route.RefusedQueued))
	c := ingress.dial()
	const body = `{"room":{"id":"a"}}`
	c.send("POST / HTTP/1.1\r\nHost: h\r\n%sTransfer-Encoding: chunked\r\n\r\n%s", typeJSON, chunked(body))
	until(t, "refused", func() bool { return metric(t, ingress, "shardway_refused_by_owner_total", "held") > 0 })
	owner.refuse.Store(0)
	ingress.swap(2, 2, remote("owner", 2))
	owner.swap(2, 2, local(2))
	if res, got := c.answer("POST"); res.Header.Get("Saw-Shardway-Key") != "a" || got != "POST / "+body {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}

// A request that waits in the queue is read for its key when a source of the body becomes active, and the
// limit of that configuration applies.
func TestQueuedBodiesAreReadAfterKeyChange(t *testing.T) {
	for limit, want := range map[int]string{100: "a", 10: "q"} {
		ingress, owner := pair(t, webApp(t, echo), func(o *proxy.Options) { o.QueueWait = 20 * time.Second })
		ingress.swap(1, 2, held(route.ReasonMoving))
		c := ingress.dial()
		const body = `{"id":"a"}  `
		c.send("POST /?q=q HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%sTransfer-Encoding: chunked\r\n\r\n", typeJSON)
		until(t, "it waits", func() bool { return ingress.room.Stats().Waiting == 1 })
		keys := parsedKeys(t, fmt.Sprintf(`{"key":["json:/id","query:q"],"on_missing_key":"reject","body_buffer":%d}`, limit))
		ingress.keys, ingress.keysSince, owner.keys, owner.keysSince = keys, 2, keys, 2
		owner.swap(2, 2, local(2))
		ingress.swap(2, 2, remote("owner", 2))
		c.send("%s", chunked(body))
		if res, got := c.answer("POST"); res.Header.Get("Saw-Shardway-Key") != want || got != "POST /?q=q "+body {
			t.Errorf("%d %s, key %q, want %q", res.StatusCode, got, res.Header.Get("Saw-Shardway-Key"), want)
		}
	}
}

// An app in this process, a gateway and a front other than HTTP/1 get the same keys.
func TestInboundBodiesHaveKeys(t *testing.T) {
	for _, streams := range []bool{false, true} {
		for way, start := range handlerWays() {
			t.Run(fmt.Sprint(way, " ", streams), func(t *testing.T) {
				front, _ := start(t, func(ctx *fasthttp.RequestCtx) {
					body := ctx.PostBody()
					if streams && ctx.IsBodyStream() {
						body, _ = io.ReadAll(ctx.RequestBodyStream())
					}
					_, _ = fmt.Fprintf(ctx, "%s %s", ctx.Request.Header.Peek("Shardway-Key"), body)
				}, readingBodies(t), func(o *proxy.Options) { o.HandlerStreams = streams })
				for body, key := range map[string]string{
					`{"room":{"id":"a"}}`:                                "a",
					`{"room":{"id":"a"}}` + strings.Repeat(" ", 100<<10): "q",
				} {
					for _, size := range []int{len(body), -1} {
						c := front.memoryRequest("POST", "/?room=q", size, "Content-Type: application/json")
						go func() {
							if size < 0 {
								c.sendChunk(body)
								c.sendChunk("")
								return
							}
							c.send(body)
						}()
						if res, got := c.answer(); res.StatusCode != 200 || got != key+" "+body {
							t.Errorf("%d %.100q, want %s", res.StatusCode, got, key)
						}
					}
				}
			})
		}
	}
}
