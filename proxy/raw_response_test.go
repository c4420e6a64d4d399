package proxy_test

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// answerCase is the response of an app, and the expected result at the client.
type answerCase struct {
	name, bytes string
	status      int    // status that the client gets
	body        string // body that the client gets
	cut         bool   // the connection breaks after that
	stays       bool   // the app does not close its connection
}

func badAnswers() []answerCase {
	const ok = "HTTP/1.1 200 OK\r\n"
	bad := map[string]string{
		"no status line":        "hello\r\n\r\n",
		"HTTP/2":                "HTTP/2.0 200 OK\r\n\r\n",
		"status of two digits":  "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
		"status of four digits": "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
		"status with a sign":    "HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n",
		"status 099":            "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
		"CL with TE":            ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"CL twice":              ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
		"CL signed":             ok + "Content-Length: +3\r\n\r\nabc",
		"CL space before colon": ok + "Content-Length : 3\r\n\r\nabc",
		"TE gzip":               ok + "Transfer-Encoding: gzip\r\n\r\nabc",
		"TE in HTTP/1.0":        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"bare LF":               ok + "A: b\nContent-Length: 0\r\n\r\n",
		"all LF":                "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
		"CR in value":           ok + "A: b\rc\r\nContent-Length: 0\r\n\r\n",
		"NUL in value":          ok + "A: b\x00\r\nContent-Length: 0\r\n\r\n",
		"no colon":              ok + "Abc\r\nContent-Length: 0\r\n\r\n",
		"space in name":         ok + "A b: c\r\nContent-Length: 0\r\n\r\n",
		"CL list":               ok + "Content-Length: 3, 4\r\n\r\nabcd",
		"folded CL":             ok + "Content-Length:\r\n 3\r\n\r\nabc",
		"blank folded line":     ok + "A: b\r\n \r\nContent-Length: 0\r\n\r\n",
		"body of a 103":         "HTTP/1.1 103 Early\r\nContent-Length: 3\r\n\r\nabc" + ok + "Content-Length: 0\r\n\r\n",
		"101 not asked for":     "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
		"endless head":          ok + "A: " + strings.Repeat("a", 100<<10) + "\r\n\r\n",
		"too many lines":        ok + strings.Repeat("A: b\r\n", 400) + "Content-Length: 0\r\n\r\n",
		"empty line before":     "\r\n" + ok + "Content-Length: 0\r\n\r\n",
		"space before status":   "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
	}
	var all []answerCase
	for name, bytes := range bad {
		all = append(all, answerCase{name: name, bytes: bytes, status: 502, stays: true})
	}
	return append(all,
		answerCase{name: "short of its small length", bytes: ok + "Content-Length: 10\r\n\r\nabc", status: 502},
		answerCase{name: "short of its length", bytes: ok + "Content-Length: 40000\r\n\r\nabc", status: 200, body: "abc", cut: true},
		answerCase{name: "without last chunk", bytes: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", status: 200, body: "abc", cut: true},
		answerCase{name: "without last CRLF", bytes: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", status: 200, body: "abc", cut: true},
		answerCase{name: "bad chunk size", bytes: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n\r\n", status: 200, body: "abc", cut: true, stays: true},
		answerCase{name: "bad chunk end", bytes: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n", status: 200, body: "abc", cut: true, stays: true},
		answerCase{name: "bad trailer", bytes: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA\r\n\r\n", status: 200, body: "abc", cut: true, stays: true},
		// These responses have only one interpretation, and the POST has run, so they are repaired.
		answerCase{name: "trailer CL", bytes: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n", status: 200, body: "abc", stays: true},
		answerCase{name: "many trailers", bytes: ok + "Transfer-Encoding: chunked\r\nTrailer: Set-Cookie\r\n\r\n3\r\nabc\r\n0\r\n" + strings.Repeat("A: b\r\n", 500) + "\r\n", status: 200, body: "abc", stays: true},
		answerCase{name: "equal CLs", bytes: ok + "Content-Length: 3, 3\r\nContent-Length: 3\r\n\r\nabc", status: 200, body: "abc", stays: true},
		answerCase{name: "204 with a length", bytes: "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc", status: 204, stays: true},
		answerCase{name: "204 with chunks", bytes: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", status: 204, stays: true},
		answerCase{name: "204 with a response behind", bytes: "HTTP/1.1 204 No Content\r\nContent-Length: 39\r\n\r\nHTTP/1.1 200 Evil\r\nContent-Length: 0\r\n\r\n", status: 204, stays: true},
		answerCase{name: "103 with a length", bytes: "HTTP/1.1 103 Early\r\nContent-Length: 3\r\n\r\n" + ok + "Content-Length: 3\r\n\r\nabc", status: 200, body: "abc", stays: true},
		answerCase{name: "control byte in reason", bytes: "HTTP/1.1 200 O\aK\r\nContent-Length: 3\r\n\r\nabc", status: 200, body: "abc", stays: true},
		answerCase{name: "folded line", bytes: ok + "A: b\r\n c\r\nContent-Length: 3\r\n\r\nabc", status: 200, body: "abc", stays: true},
		answerCase{name: "space before a colon", bytes: ok + "A : b\r\nContent-Length: 3\r\n\r\nabc", status: 200, body: "abc", stays: true},
		answerCase{name: "padded chunk size", bytes: ok + "Transfer-Encoding: chunked\r\n\r\n3  \r\nabc\r\n0;=\r\n\r\n", status: 200, body: "abc", stays: true},
		answerCase{name: "more than its length", bytes: ok + "Content-Length: 3\r\n\r\nabcHTTP/1.1 200 Evil\r\nContent-Length: 0\r\n\r\n", status: 200, body: "abc", stays: true},
		answerCase{name: "two answers", bytes: ok + "Content-Length: 3\r\n\r\nabc" + ok + "Content-Length: 4\r\n\r\nevil", status: 200, body: "abc", stays: true},
		answerCase{name: "a body behind 304", bytes: "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil", status: 304, stays: true},
		answerCase{name: "a body behind 204", bytes: "HTTP/1.1 204 No Content\r\n\r\nevil", status: 204, stays: true},
		answerCase{name: "until close", bytes: ok + "\r\nabc", status: 200, body: "abc"},
		answerCase{name: "HTTP/1.0", bytes: "HTTP/1.0 200 OK\r\n\r\nabc", status: 200, body: "abc"},
		answerCase{name: "103 first", bytes: "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + ok + "Content-Length: 3\r\n\r\nabc", status: 200, body: "abc", stays: true},
		answerCase{name: "100 not asked for", bytes: "HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 3\r\n\r\nabc", status: 200, body: "abc", stays: true},
		answerCase{name: "no reason", bytes: "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", status: 200, body: "abc", stays: true},
	)
}

// TestRawResponses checks the handling of malformed responses: a bad response becomes 502 or is
// visibly truncated, and never becomes part of another response.
func TestRawResponses(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			app := newChecker(t)
			front, owner := start(t, app.addr)
			for _, tc := range badAnswers() {
				t.Run(tc.name, func(t *testing.T) {
					app.mu.Lock()
					app.bad = func(conn net.Conn) bool {
						_, err := io.WriteString(conn, tc.bytes)
						return err == nil && tc.stays
					}
					app.mu.Unlock()
					tc.run(t, app, front)
					until(t, "released", func() bool { return owner.running.Load() == 0 })
				})
			}
		})
	}
}

func (tc answerCase) run(t *testing.T, app *checker, front *node) {
	t.Helper()
	c := front.dial()
	c.t = t
	// The next pipelined request must get its own response or none.
	c.send("POST /bad HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	res, err := http.ReadResponse(c.r, &http.Request{Method: "POST"}) //nolint:bodyclose // it is read to its end
	for err == nil && res.StatusCode == 103 {
		res, err = http.ReadResponse(c.r, &http.Request{Method: "POST"}) //nolint:bodyclose // as above
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if res.StatusCode != tc.status || (err != nil) != tc.cut {
		t.Errorf("%v %q, %v; want %d, cut: %v", res.Status, body, err, tc.status, tc.cut)
	}
	switch code := res.Header.Get("Shardway-Error"); {
	case tc.status == 502:
		if code != "upstream-broken" {
			t.Errorf("Shardway-Error %q, want upstream-broken", code)
		}
	case !strings.HasPrefix(tc.body, string(body)) || !tc.cut && tc.body != string(body):
		t.Errorf("body %q, want %q", body, tc.body)
	}
	ordinary(t, app, front, c, !tc.cut)
	seen, _ := app.take()
	if n := len(slices.DeleteFunc(seen, func(s string) bool { return s != "POST /bad " })); n != 1 {
		t.Errorf("the POST ran %d times", n)
	}
}
