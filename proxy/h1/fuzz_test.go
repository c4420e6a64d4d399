package h1_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"shardway/proxy/h1"
)

// outcome is the result of reading some bytes: a message, and the rest.
type outcome struct {
	first   string // of the header section: method, target and host, or status code and reason
	minor   int
	body    string
	trailer int // number of trailer lines
	rest    string

	repaired bool // the response's header section was repaired
	dropped  int  // number of dropped trailer fields
}

// errRefused represents any rejection.
var errRefused = errors.New("refused")

// ours reads one request and all bytes that follow it.
func ours(c *h1.Conn) (outcome, error) {
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil {
		return outcome{}, errRefused
	}
	return oursOf(c, &r)
}

// oursOf reads all bytes that follow the header section of a request.
func oursOf(c *h1.Conn, r *h1.Request) (outcome, error) {
	body, err := io.ReadAll(&r.Body)
	if err != nil {
		return outcome{}, errRefused
	}
	o := outcome{first: fmt.Sprintf("%s %s %s", r.Method(), r.Target(), r.Host()), minor: r.Minor(), body: string(body)}
	o.trailer = bytes.Count(r.Body.Trailers(), []byte("\n"))
	o.dropped, _ = r.Body.DroppedTrailers()
	rest, err := io.ReadAll(c.InitRestBody(new(h1.Body)))
	o.rest = string(rest)
	return o, err
}

// theirs does the same with net/http.
func theirs(b []byte) (outcome, error) {
	br := bufio.NewReader(bytes.NewReader(b))
	r, err := http.ReadRequest(br)
	if err != nil {
		return outcome{}, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return outcome{}, err
	}
	target := r.RequestURI
	if !strings.HasPrefix(target, "/") && target != "*" {
		target = r.URL.RequestURI()
		if r.URL.Path == "" && r.URL.RawQuery == "" && !r.URL.ForceQuery && r.Method == "OPTIONS" {
			target = "*"
		}
	}
	o := outcome{first: fmt.Sprintf("%s %s %s", r.Method, target, r.Host), minor: r.ProtoMinor, body: string(body)}
	for _, v := range r.Trailer {
		o.trailer += len(v)
	}
	rest, err := io.ReadAll(br)
	o.rest = string(rest)
	return o, err
}

// FuzzRequest compares the parser with net/http and fasthttp. They must read each accepted request as
// the same single request. The forwarded form of a request must be accepted again with the same
// result.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		header(""), "\r\n" + header("A: b\r\n"),
		"GET http://H:8/a?b HTTP/1.1\r\nHost: h:8\r\n\r\n", "OPTIONS http://h HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET http://h?a HTTP/1.0\r\n\r\n", "GET //a/%2f?%zz HTTP/1.1\r\nHost: [::1]:8\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: h\r\n\r\n",
		chunkedHead + "3;a=\"b\"\r\nabc\r\n0\r\nX-A: 1\r\n\r\nrest",
		header("Transfer-Encoding: chunked\r\nTrailer: X-A\r\n") + "0\r\nX-A: 1\r\n\r\n",
		header("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
		header("Connection: upgrade, x-a\r\nUpgrade: x\r\nX-A: b\r\nExpect: 100-continue\r\nTE: trailers\r\n"),
		header("Shardway_Epoch: 9\r\nX-Real-IP: a\r\nX_real-ip: a\r\nX_FORWARDED-For: a\r\nx-forwarded-b_c: d\r\nX-Request_Id: e\r\n"), header("Content_Length: 9\r\n"),
		header("Shardway.Epoch: 9\r\nX+FORWARDED|For: a\r\n"), header("Transfer~Encoding: chunked\r\n"),
		header("A: b\r\n c\r\n"), "GET / HTTP/1.1\nHost: h\n\n", "GET /\r\n\r\n", "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ours(over(string(b)))
		slow, slowErr := ours(trickle(string(b)))
		if got != slow || (err == nil) != (slowErr == nil) {
			t.Fatalf("at once %+v, %v; in bytes %+v, %v", got, err, slow, slowErr)
		}
		if err != nil {
			return
		}
		want, err := theirs(bytes.TrimPrefix(b, []byte("\r\n")))
		if err != nil || got != want {
			t.Fatalf("we read %+v, net/http %+v, %v", got, want, err)
		}
		var r h1.Request
		if err = over(string(b)).ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
		asFasthttp(t, &r)
		if strings.HasSuffix(got.first, " ") {
			return // HTTP/1.0 without a host, which only the caller can know
		}
		again, err := ours(over(forwarded(t, string(b), &h1.Edit{})))
		unforged(t, forwarded(t, string(b), &h1.Edit{Drop: h1.Shardway | h1.Forwarding | h1.Lookalikes}))
		got.rest, got.minor, got.repaired, got.dropped = "", 1, false, 0
		if err != nil || again != got {
			t.Fatalf("we read %+v, and when forwarded %+v, %v", got, again, err)
		}
	})
}

// unforged fails the test if a forwarded message contains a field that only the proxy may set. It
// compares names as CGI, WSGI and PHP do, where _ equals -, and as lighttpd does, where any character
// except letters and digits equals -.
func unforged(t *testing.T, s string) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(s)))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body) // after this the trailers are available
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for name := range h {
			n := strings.Map(func(r rune) rune {
				if strings.ContainsRune("!#$%&'*+.^_`|~", r) {
					return '-'
				}
				return r
			}, strings.ToLower(name))
			if strings.HasPrefix(n, "shardway-") || strings.HasPrefix(n, "x-forwarded-") || n == "forwarded" || n == "x-real-ip" || n == "transfer-encoding" {
				t.Fatalf("%q goes on in %q", name, s)
			}
		}
	}
}

// forwarded returns what a request becomes on its way through.
func forwarded(t *testing.T, s string, e *h1.Edit) string {
	t.Helper()
	var r h1.Request
	if err := over(s).ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	return sent(t, func(c *h1.Conn) *h1.Writer { return c.WriteRequestHeader(&r, e) }, &r.Body)
}

func sent(t *testing.T, head func(*h1.Conn) *h1.Writer, b *h1.Body) string {
	t.Helper()
	out := new(canned)
	w := head(h1.NewConn(out, h1.Options{}))
	_, rerr, werr := w.Copy(b)
	if err := errors.Join(rerr, werr, w.Close(b.Trailers())); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Logf("forwarding: %v", err)
	}
	return out.sent.String()
}

// FuzzResponse holds us to net/http, and to fasthttp, on the other side.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcrest", "HTTP/1.1 200\r\n\r\nabc", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nabc",
		"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 304 Same\r\nTransfer-Encoding: chunked\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-A: b\r\n\r\nrest", "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc", "HTTP/1.1 200 OK\nA: b\n\n", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		got, err := ourAnswer(over(string(b)), method)
		slow, slowErr := ourAnswer(trickle(string(b)), method)
		if got != slow || (err == nil) != (slowErr == nil) {
			t.Fatalf("at once %+v, %v; in bytes %+v, %v", got, err, slow, slowErr)
		}
		if err != nil {
			return
		}
		want, err := theirAnswer(b, method)
		if err == nil {
			want.trailer, want.dropped, want.repaired = want.trailer-got.dropped, got.dropped, got.repaired
		}
		if (err != nil || got != want) && (err == nil || !got.repaired) && (!got.repaired || got.first == want.first) {
			t.Fatalf("we read %+v, net/http %+v, %v", got, want, err)
		}
		var r h1.Response
		if err = over(string(b)).ReadResponse(&r, []byte(method)); err != nil {
			t.Fatal(err)
		}
		if !got.repaired {
			answerAsFasthttp(t, &r)
		}
		if r.IsSwitchingProtocols() {
			return
		}
		again, err := ourAnswer(over(sent(t, func(c *h1.Conn) *h1.Writer { return c.WriteResponseHeader(&r, &h1.Edit{}) }, &r.Body)), method)
		got.rest, got.minor, got.repaired, got.dropped = "", 1, false, 0
		if err != nil || again != got {
			t.Fatalf("we read %+v, and when forwarded %+v, %v", got, again, err)
		}
	})
}

func ourAnswer(c *h1.Conn, method string) (outcome, error) {
	var r h1.Response
	if err := c.ReadResponse(&r, []byte(method)); err != nil {
		return outcome{}, errRefused
	}
	body, err := io.ReadAll(&r.Body)
	if err != nil {
		return outcome{}, errRefused
	}
	o := outcome{first: fmt.Sprintf("%d %s", r.Status(), r.Reason()), minor: r.Minor(), body: string(body)}
	if r.IsSwitchingProtocols() {
		return o, nil // net/http takes what follows for the body
	}
	o.trailer = bytes.Count(r.Body.Trailers(), []byte("\n"))
	o.repaired = r.Repairs() != ""
	o.dropped, _ = r.Body.DroppedTrailers()
	rest, err := io.ReadAll(c.InitRestBody(new(h1.Body)))
	o.rest = string(rest)
	return o, err
}

func theirAnswer(b []byte, method string) (outcome, error) {
	br := bufio.NewReader(bytes.NewReader(b))
	r, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = r.Body.Close() }() // what is wrong with the body, reading it tells
	reason := strings.TrimPrefix(strings.TrimPrefix(r.Status, strconv.Itoa(r.StatusCode)), " ")
	o := outcome{first: fmt.Sprintf("%d %s", r.StatusCode, reason), minor: r.ProtoMinor}
	if r.StatusCode == http.StatusSwitchingProtocols {
		return o, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return outcome{}, err
	}
	o.body = string(body)
	for _, v := range r.Trailer {
		o.trailer += len(v)
	}
	rest, err := io.ReadAll(br)
	o.rest = string(rest)
	return o, err
}

// FuzzChunked puts the fuzzer's bytes where the body stands.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\nrest", "3;a;b=c;d=\"e\\\"\"\r\nabc\r\n00\r\nX-A: b\r\nx-a:c\r\n\r\n", "1000\r\n" + strings.Repeat("x", 4096) + "\r\n0\r\n\r\n",
		"3 \r\nabc\r\n0\r\n\r\n", "3\nabc\n0\n\n", "-1\r\n\r\n", "ffffffffffffffff\r\n", "0\r\nHost: h\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := header("Transfer-Encoding: chunked\r\n") + string(b)
		got, err := ours(over(s))
		slow, slowErr := ours(trickle(s))
		if got != slow || (err == nil) != (slowErr == nil) {
			t.Fatalf("at once %+v, %v; in bytes %+v, %v", got, err, slow, slowErr)
		}
		if err != nil {
			return
		}
		want, err := theirs([]byte(s))
		want.trailer, want.dropped = want.trailer-got.dropped, got.dropped
		if err != nil || got != want {
			t.Fatalf("we read %+v, net/http %+v, %v", got, want, err)
		}
		again, err := ours(over(forwarded(t, s, &h1.Edit{})))
		if got.rest, got.dropped = "", 0; err != nil || again != got {
			t.Fatalf("we read %+v, and when forwarded %+v, %v", got, again, err)
		}
	})
}
