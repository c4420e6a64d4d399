package wrapkey_test

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"shardway/keysource"
	"shardway/proxy/h1"
	"shardway/proxy/wrapkey"
)

// parseResponse parses a response with the given status line and header lines.
func parseResponse(tb testing.TB, status string, lines ...string) *h1.Response {
	tb.Helper()
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	go func() {
		_, _ = server.Write([]byte("HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"))
		_ = server.Close()
	}()
	var conn h1.Conn
	conn.Reset(client, h1.Options{MaxHeaderBytes: 64 << 10, MaxHeaderLines: 256})
	res := &h1.Response{}
	if err := conn.ReadResponse(res, []byte("GET")); err != nil {
		tb.Fatalf("%q: %v", lines, err)
	}
	return res
}

// bound returns a request without values of the source, which has a new key.
func bound(tb testing.TB, texts ...string) *wrapkey.Request {
	tb.Helper()
	table, err := keysource.NewTable(keysource.Spec{Sources: texts})
	if err != nil {
		tb.Fatal(err)
	}
	r := wrapkey.NewRequest(nil, wrapkey.NewFields(table.Wrapped()))
	r.Bind(table.Defaults().Sources, bytes.Repeat([]byte("ab"), 16))
	return r
}

func TestOnlySessionIDsOfResponsesGetASuffix(t *testing.T) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", 4096-wrapkey.SuffixLen-len("sid="))
	for _, tc := range []struct {
		line, want string // in want, ~ stands for the suffix; empty means unchanged
	}{
		{"Set-Cookie: sid=v", "sid=v~"},
		{"set-cookie: sid=v; Path=/; HttpOnly", "sid=v~; Path=/; HttpOnly"},
		{`Set-Cookie: sid="v"; Path=/`, `sid="v~"; Path=/`},
		{"Set-Cookie: sid = v ; Path=/", "sid = v~ ; Path=/"},
		{`Set-Cookie: sid= "v" ;Path=/`, `sid= "v~" ;Path=/`},
		{"Set-Cookie: sid=a=b", "sid=a=b~"},
		{"Set-Cookie: sid=s%3Ax.y; Expires=Mon, 30 Nov 2026 09:00:00 GMT", "sid=s%3Ax.y~; Expires=Mon, 30 Nov 2026 09:00:00 GMT"},
		{"Set-Cookie: sid=v; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "sid=v~; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"},
		{"Set-Cookie: sid=v; Max-Age=", "sid=v~; Max-Age="},
		{"Set-Cookie: sid=v; Expires=soon", "sid=v~; Expires=soon"},
		{"Set-Cookie: sid=v; max-age=0; max-age=5", "sid=v~; max-age=0; max-age=5"},
		{"Set-Cookie: sid=" + long, "sid=" + long + "~"},
		{"Set-Cookie: sid=", ""},
		{`Set-Cookie: sid=""`, ""},
		{"Set-Cookie: sid", ""},
		{"Set-Cookie: sid=v; Max-Age=0", ""},
		{"Set-Cookie: sid=v;MAX-AGE = 00", ""},
		{"Set-Cookie: sid=v; max-age=-1", ""},
		{"Set-Cookie: sid=v; Max-Age=0; Expires=Mon, 30 Nov 2026 09:00:00 GMT", ""},
		{"Set-Cookie: sid=deleted; expires=Thu, 01-Jan-1970 00:00:01 GMT; Max-Age=0", ""},
		{"Set-Cookie: sid=deleted; expires=Thu, 01-Jan-1970 00:00:01 GMT", ""},
		{"Set-Cookie: sid=v; Expires=Thu, 01 Jan 1970 00:00:00 GMT", ""},
		{"Set-Cookie: sid=v; Expires=Mon, 30 Nov 2026 08:00:00 GMT", ""},
		{"Set-Cookie: sid=x" + long, ""},
		{"Set-Cookie: SID=v", ""},
		{"Set-Cookie: other=sid=v", ""},
		{"Set-Cookie: other; sid=v", ""},
		{"Set-Cookie2: sid=v", ""},
		{"Cookie: sid=v", ""},
		{"Session: v", "v~"},
		{"session:  v w ", "v w~"},
		{"Session:", ""},
		{"Session_: v", ""},
	} {
		for _, status := range []string{"200 OK", "302 Found", "404 Not Found", "500 Oops"} {
			r := bound(t, "wrap:cookie:sid", "wrap:header:Session")
			res := parseResponse(t, status, tc.line)
			replace, oversized := r.Response(res, now)
			if want := tc.want == "" && strings.HasPrefix(tc.line, "Set-Cookie: sid=x"); (oversized == 1) != want {
				t.Errorf("%.60s: %d are counted as too long", tc.line, oversized)
			}
			if tc.want == "" {
				if len(replace) != 0 {
					t.Errorf("%.60s: changed to %q", tc.line, replace[0].Value)
				}
				continue
			}
			before, after, _ := strings.Cut(tc.want, "~")
			if len(replace) != 1 || replace[0].Line != 1 || !bytes.HasPrefix(replace[0].Value, []byte(before+".sw-")) ||
				!bytes.HasSuffix(replace[0].Value, []byte(after)) || len(replace[0].Value) != len(before)+len(after)+wrapkey.SuffixLen {
				t.Errorf("%.60s: %v, want %.60q", tc.line, replace, tc.want)
			}
		}
	}
}

func TestInterimAndNotModifiedResponsesStayUnchanged(t *testing.T) {
	for _, status := range []string{"103 Early Hints", "304 Not Modified"} {
		if replace, _ := bound(t, "wrap:cookie:sid").Response(parseResponse(t, status, "Set-Cookie: sid=v"), time.Now()); replace != nil {
			t.Errorf("%s: %v", status, replace)
		}
	}
}

// All lines get the same id, in the order of the lines.
func TestEachSetCookieOfANameGetsASuffix(t *testing.T) {
	r := bound(t, "wrap:header:Session", "wrap:cookie:sid")
	replace, _ := r.Response(parseResponse(t, "200 OK", "Set-Cookie: sid=a; Path=/a", "Session: c", "Set-Cookie: x=y", "Set-Cookie: sid=b; Path=/b"), time.Now())
	if len(replace) != 3 || replace[0].Line != 1 || replace[1].Line != 2 || replace[2].Line != 4 {
		t.Fatalf("%v", replace)
	}
}

// FuzzSetCookie verifies that a suffix changes nothing but the value of the cookie for a browser, which
// net/http represents, and that a removed cookie stays removed.
func FuzzSetCookie(f *testing.F) {
	f.Add("sid=v; Path=/; HttpOnly")
	f.Add(`sid="v"; Max-Age=0`)
	f.Add(`sid=" ;"; Expires=Thu, 01-Jan-1970 00:00:01 GMT`)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\r\n\x00") || len(line) > 4000 {
			return
		}
		raw := "HTTP/1.1 200 OK\r\nSet-Cookie: " + line + "\r\n\r\n"
		plain, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
		if err != nil {
			return
		}
		_ = plain.Body.Close()
		res := parseLenient(t, raw)
		if res == nil {
			return
		}
		replace, _ := bound(t, "wrap:cookie:sid").Response(res, time.Now())
		if len(replace) == 0 {
			return
		}
		before, errBefore := http.ParseSetCookie(line)
		after, errAfter := http.ParseSetCookie(string(replace[0].Value))
		if (errBefore == nil) != (errAfter == nil) {
			t.Fatalf("%q: %v, and with a suffix %q: %v", line, errBefore, replace[0].Value, errAfter)
		}
		if errBefore != nil {
			return
		}
		if before.Name != "sid" || before.Value == "" || before.MaxAge < 0 || !strings.HasPrefix(after.Value, before.Value+".sw-") || before.Quoted != after.Quoted {
			t.Fatalf("%q became %q", line, replace[0].Value)
		}
		after.Value, after.Raw, before.Raw = before.Value, "", ""
		if before.String() != after.String() {
			t.Fatalf("the attributes of %q became %q", line, replace[0].Value)
		}
	})
}

// parseLenient parses a response, or returns nil if it is malformed.
func parseLenient(tb testing.TB, raw string) *h1.Response {
	tb.Helper()
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	go func() {
		_, _ = server.Write([]byte(raw))
		_ = server.Close()
	}()
	var conn h1.Conn
	conn.Reset(client, h1.Options{MaxHeaderBytes: 64 << 10, MaxHeaderLines: 256})
	res := &h1.Response{}
	if conn.ReadResponse(res, []byte("GET")) != nil {
		return nil
	}
	return res
}
