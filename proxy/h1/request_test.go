package h1_test

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/proxy/h1"
)

// canned is a connection with fixed bytes to read, split into pieces. After them, the peer has closed
// it.
type canned struct {
	net.Conn // nil: methods that the tests do not use
	pieces   []string
	sent     strings.Builder
}

func (c *canned) Read(p []byte) (int, error) {
	for len(c.pieces) > 0 && c.pieces[0] == "" {
		c.pieces = c.pieces[1:]
	}
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	c.pieces[0] = c.pieces[0][n:]
	return n, nil
}

func (c *canned) Write(p []byte) (int, error) { return c.sent.Write(p) }

func (c *canned) Close() error { return nil }

func (c *canned) SetReadDeadline(time.Time) error { return nil }

func (c *canned) SetWriteDeadline(time.Time) error { return nil }

// over returns a Conn that reads s at once.
func over(s string) *h1.Conn {
	return h1.NewConn(&canned{pieces: []string{s}}, h1.Options{})
}

// trickle returns a Conn that reads s byte by byte.
func trickle(s string) *h1.Conn {
	return h1.NewConn(&canned{pieces: strings.Split(s, "")}, h1.Options{})
}

// wantStatus fails unless err is an *Error with that status.
func wantStatus(t *testing.T, err error, status int) {
	t.Helper()
	var e *h1.Error
	if !errors.As(err, &e) || e.Status() != status {
		t.Errorf("error = %v, want one with status %d", err, status)
	}
}

// header returns a request with these lines after Host.
func header(lines string) string {
	return "GET / HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n"
}

func TestRefusedRequests(t *testing.T) {
	tests := []struct {
		name   string
		bytes  string
		status int
	}{
		// Request lines.
		{"HTTP/0.9", "GET /\r\n\r\n", 400},
		{"HTTP/0.9 without a target", "GET\r\n\r\n", 400},
		{"no version", "GET / \r\nHost: h\r\n\r\n", 400},
		{"no target", "GET  HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"two spaces before the target", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"two spaces before the version", "GET /  HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"space behind the version", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400},
		{"space before the method", " GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"tab instead of a space", "GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"space in the target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"no method", "/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"bad method", "G@T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"method with a colon", "GET: / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
		{"NUL in the target", "GET /\x00 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"tab in the target", "GET /\t HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CR in the target", "GET /\rx HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"DEL in the target", "GET /\x7f HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"raw byte in the target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"fragment", "GET /#a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"relative target", "GET a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"broken escape in the path", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"cut escape in the path", "GET /%4?a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"asterisk for GET", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"two asterisks", "OPTIONS ** HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"lower-case version", "GET / http/1.1\r\nHost: h\r\n\r\n", 400},
		{"odd version", "GET / HTTP/1.1x\r\nHost: h\r\n\r\n", 400},
		{"version with two digits", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", 400},
		{"version with a comma", "GET / HTTP/1,1\r\nHost: h\r\n\r\n", 400},
		{"another protocol", "GET / HTTPS/1.1\r\nHost: h\r\n\r\n", 400},
		{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505},
		{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
		{"HTTP/0.9 said", "GET / HTTP/0.9\r\nHost: h\r\n\r\n", 505},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"CONNECT", "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", 405},
		{"CONNECT with a path", "CONNECT / HTTP/1.1\r\nHost: h\r\n\r\n", 405},
		{"long target", "GET /" + strings.Repeat("a", 17<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n", 414},
		{"endless target", "GET /" + strings.Repeat("a", 17<<10), 414},

		// Line ends.
		{"bare LF in the request line", "GET / HTTP/1.1\nHost: h\r\n\r\n", 400},
		{"bare LF behind a header", header("A: b\n"), 400},
		{"bare LF as the empty line", "GET / HTTP/1.1\r\nHost: h\r\n\n", 400},
		{"bare LFs only", "GET / HTTP/1.1\nHost: h\n\n", 400},
		{"LF before the request", "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"two empty lines before the request", "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CRLF LF before the request", "\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CR CR LF before the request", "\r\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CR before the request", "\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CR CR LF", header("A: b\r\r\n"), 400},
		{"CR in a value", header("A: b\rc\r\n"), 400},
		{"CR in a name", header("A\rB: c\r\n"), 400},
		{"CR CR LF as the empty line", "GET / HTTP/1.1\r\nHost: h\r\n\r\r\n", 400},

		// Header lines.
		{"folded", header("A: b\r\n c\r\n"), 400},
		{"folded with a tab", header("A: b\r\n\tc\r\n"), 400},
		{"folded before the first header", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
		{"folded to nothing", header("A: b\r\n \r\n"), 400},
		{"space before the colon", header("A : b\r\n"), 400},
		{"tab before the colon", header("A\t: b\r\n"), 400},
		{"space in the name", header("A B: c\r\n"), 400},
		{"no name", header(": b\r\n"), 400},
		{"no colon", header("A\r\n"), 400},
		{"parenthesis in the name", header("A(: b\r\n"), 400},
		{"raw byte in the name", header("\xc3\xa9: b\r\n"), 400},
		{"NUL in the name", header("A\x00: b\r\n"), 400},
		{"DEL in the name", header("A\x7f: b\r\n"), 400},
		{"NUL in the value", header("A: b\x00c\r\n"), 400},
		{"control byte in the value", header("A: \x01\r\n"), 400},
		{"control byte in a long value", header("A: " + strings.Repeat("x", 21) + "\x1f" + strings.Repeat("x", 9) + "\r\n"), 400},
		{"vertical tab in the value", header("A: b\x0b\r\n"), 400},
		{"DEL in the value", header("A: b\x7f\r\n"), 400},
		{"too many lines", header(strings.Repeat("A: b\r\n", 256)), 431},
		{"long line", header("A: " + strings.Repeat("b", 64<<10) + "\r\n"), 431},
		{"long head", header(strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 80)), 431},
		{"endless head", header(strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 80))[:70<<10], 431},

		// Host.
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two Hosts", header("Host: h\r\n"), 400},
		{"two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: h\r\nHost: h\r\n\r\n", 400},
		{"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
		{"Host list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400},
		{"Host with a comma", "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400},
		{"Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
		{"Host with a backslash", "GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n", 400},
		{"Host with a query", "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n", 400},
		{"Host with a user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
		{"Host with an escape", "GET / HTTP/1.1\r\nHost: a%2fb\r\n\r\n", 400},
		{"Host with a raw byte", "GET / HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n", 400},
		{"Host with two ports", "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n", 400},
		{"Host with a word for a port", "GET / HTTP/1.1\r\nHost: a:http\r\n\r\n", 400},
		{"Host with a signed port", "GET / HTTP/1.1\r\nHost: a:+80\r\n\r\n", 400},
		{"Host with a large port", "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", 400},
		{"Host is a port", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400},
		{"Host open bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
		{"Host word in brackets", "GET / HTTP/1.1\r\nHost: [abcd]\r\n\r\n", 400},
		{"Host zone", "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n", 400},
		{"Host behind brackets", "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", 400},
		{"Host is a URL", "GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", 400},
		{"absolute-form with another Host", "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", 400},
		{"absolute-form with another port", "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"absolute-form with the port of the other scheme", "GET http://a:443/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"absolute-form, https with the port of the other scheme", "GET https://a/ HTTP/1.1\r\nHost: a:80\r\n\r\n", 400},
		{"absolute-form with a port that ends like the default", "GET http://a:8080/ HTTP/1.1\r\nHost: a:80\r\n\r\n", 400},
		{"absolute-form without Host", "GET http://a/ HTTP/1.1\r\n\r\n", 400},
		{"absolute-form with a user", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"absolute-form without a host", "GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"absolute-form of another scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"absolute-form with a broken escape", "GET http://a/%x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"authority-form for GET", "GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 400},

		// Framing.
		{"length and coding", header("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), 400},
		{"coding and length", header("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"), 400},
		{"two lengths", header("Content-Length: 3\r\nContent-Length: 4\r\n"), 400},
		{"two equal lengths", header("Content-Length: 3\r\nContent-Length: 3\r\n"), 400},
		{"list of lengths", header("Content-Length: 3, 3\r\n"), 400},
		{"signed length", header("Content-Length: +3\r\n"), 400},
		{"negative length", header("Content-Length: -3\r\n"), 400},
		{"empty length", header("Content-Length:\r\n"), 400},
		{"hexadecimal length", header("Content-Length: 0x3\r\n"), 400},
		{"length with a space", header("Content-Length: 3 3\r\n"), 400},
		{"length with a point", header("Content-Length: 3.0\r\n"), 400},
		{"length in quotes", header("Content-Length: \"3\"\r\n"), 400},
		{"overflowing length", header("Content-Length: 99999999999999999999\r\n"), 400},
		{"length of 2^64", header("Content-Length: 18446744073709551616\r\n"), 400},
		{"length with full-width digits", header("Content-Length: \xef\xbc\x93\r\n"), 400},
		{"identity", header("Transfer-Encoding: identity\r\n"), 400},
		{"gzip", header("Transfer-Encoding: gzip\r\n"), 400},
		{"gzip, chunked", header("Transfer-Encoding: gzip, chunked\r\n"), 400},
		{"chunked, identity", header("Transfer-Encoding: chunked, identity\r\n"), 400},
		{"chunked twice", header("Transfer-Encoding: chunked, chunked\r\n"), 400},
		{"chunked on two lines", header("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
		{"identity and chunked on two lines", header("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"), 400},
		{"chunked with a parameter", header("Transfer-Encoding: chunked;q=1\r\n"), 400},
		{"chunked in quotes", header("Transfer-Encoding: \"chunked\"\r\n"), 400},
		{"chunked behind a vertical tab", header("Transfer-Encoding: \x0bchunked\r\n"), 400},
		{"chunked with a comma", header("Transfer-Encoding: chunked,\r\n"), 400},
		{"xchunked", header("Transfer-Encoding: xchunked\r\n"), 400},
		{"empty coding", header("Transfer-Encoding:\r\n"), 400},
		{"coding with a space before the colon", header("Transfer-Encoding : chunked\r\n"), 400},
		{"coding in HTTP/1.0", "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"coding in HTTP/1.0 with a length", "POST / HTTP/1.0\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"bad Connection", header("Connection: a b\r\n"), 400},
		{"many Connection options", header("Connection: " + strings.Repeat("a,", 33) + "b\r\n"), 400},
		{"other expectation", header("Expect: 200-ok\r\n"), 417},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range []*h1.Conn{over(tt.bytes), trickle(tt.bytes)} {
				var r h1.Request
				wantStatus(t, c.ReadRequest(&r), tt.status)
			}
		})
	}
}

func TestAcceptedRequests(t *testing.T) {
	tests := []struct {
		name  string
		bytes string
		want  string // method, target, host, body framing, flags
	}{
		{"plain", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET / h none keep"},
		{"one empty line before", "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET / h none keep"},
		{"any token as method", "M-SEARCH / HTTP/1.1\r\nHost: h\r\n\r\n", "M-SEARCH / h none keep"},
		{"empty query", "GET /a? HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a? h none keep"},
		{"odd query", "GET /a?%&{|}\"^` HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a?%&{|}\"^` h none keep"},
		{"slashes", "GET //a//b/../c HTTP/1.1\r\nHost: h\r\n\r\n", "GET //a//b/../c h none keep"},
		{"escapes", "GET /%2F%00%ff HTTP/1.1\r\nHost: h\r\n\r\n", "GET /%2F%00%ff h none keep"},
		{"close", header("Connection: close\r\n"), "GET / h none"},
		{"close among others", header("Connection: x, Close ,y\r\n"), "GET / h none"},
		{"close on the second line", header("Connection: keep-alive\r\nConnection: close\r\n"), "GET / h none"},
		{"empty Connection", header("Connection:\r\n"), "GET / h none keep"},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "GET /  none"},
		{"HTTP/1.0 that stays", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET /  none keep"},
		{"HTTP/1.0 with a body", "POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\n", "POST /  length(2)"},
		{"HTTP/1.0 expects nothing", "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", "POST /  length(2)"},
		{"port", "GET / HTTP/1.1\r\nHost: h:80\r\n\r\n", "GET / h:80 none keep"},
		{"empty port", "GET / HTTP/1.1\r\nHost: h:\r\n\r\n", "GET / h: none keep"},
		{"underscore", "GET / HTTP/1.1\r\nHost: a_b.c\r\n\r\n", "GET / a_b.c none keep"},
		{"IPv6", "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "GET / [::1]:8080 none keep"},
		{"white space around Host", "GET / HTTP/1.1\r\nHost:  \t h \t \r\n\r\n", "GET / h none keep"},
		{"absolute-form", "GET http://H:8/a?b HTTP/1.1\r\nHost: h:8\r\n\r\n", "GET /a?b H:8 none keep"},
		{"absolute-form with the default port", "GET http://h:80/ HTTP/1.1\r\nHost: h\r\n\r\n", "GET / h:80 none keep"},
		{"absolute-form, Host with the default port", "GET http://h/ HTTP/1.1\r\nHost: h:80\r\n\r\n", "GET / h none keep"},
		{"absolute-form, https with the default port", "GET https://H:443/ HTTP/1.1\r\nHost: h\r\n\r\n", "GET / H:443 none keep"},
		{"absolute-form, IPv6 with the default port", "GET http://[::1]:80/ HTTP/1.1\r\nHost: [::1]\r\n\r\n", "GET / [::1]:80 none keep"},
		{"absolute-form with an empty port", "GET http://h:/ HTTP/1.1\r\nHost: h:80\r\n\r\n", "GET / h: none keep"},
		{"absolute-form with zeros before the default port", "GET http://h:0080/ HTTP/1.1\r\nHost: h\r\n\r\n", "GET / h:0080 none keep"},
		{"absolute-form, https", "GET HTTPS://h HTTP/1.1\r\nHost: h\r\n\r\n", "GET / h none keep"},
		{"absolute-form, only a query", "GET http://h?a HTTP/1.1\r\nHost: h\r\n\r\n", "GET /?a h none keep"},
		{"absolute-form, OPTIONS", "OPTIONS http://h HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * h none keep"},
		{"absolute-form, HTTP/1.0", "GET http://h/ HTTP/1.0\r\n\r\n", "GET / h none"},
		{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * h none keep"},
		{"length", header("Content-Length: 12\r\n"), "GET / h length(12) keep"},
		{"length of zero", header("Content-Length: 0\r\n"), "GET / h length(0) keep"},
		{"length with zeros", header("Content-Length: 0012\r\n"), "GET / h length(12) keep"},
		{"chunked", header("Transfer-Encoding: Chunked\r\n"), "GET / h chunked keep"},
		{"expectation", header("Expect: 100-Continue\r\nContent-Length: 1\r\n"), "GET / h length(1) keep expects"},
		{"expectation without a body", header("Expect: 100-continue\r\n"), "GET / h none keep"},
		{"upgrade", header("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"), "GET / h none keep upgrades"},
		{"upgrade not named", header("Upgrade: websocket\r\n"), "GET / h none keep"},
		{"upgrade to nothing", header("Connection: upgrade\r\n"), "GET / h none keep"},
		{"upgrade to h2c", header("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n"), "GET / h none keep"},
		// A protocol that would carry requests past the proxy is not switched to, including under its
		// draft names.
		{"upgrade to an old h2c", header("Connection: Upgrade\r\nUpgrade: websocket, H2C-14\r\n"), "GET / h none keep"},
		{"upgrade to HTTP/2.0", header("Connection: Upgrade\r\nUpgrade: HTTP/2.0\r\n"), "GET / h none keep"},
		{"upgrade to TLS", header("Connection: Upgrade\r\nUpgrade: x\r\nUpgrade: TLS/1.2, HTTP/1.1\r\n"), "GET / h none keep"},
		{"upgrade with a body", header("Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n"), "GET / h length(1) keep"},
		{"upgrade in HTTP/1.0", "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "GET /  none"},
		{"TE", header("TE: gzip, Trailers\r\n"), "GET / h none keep"},
		{"any visible byte in a value", header("A: \t!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \xc3\xa9\xff\r\n"), "GET / h none keep"},
		{"any token as a name", header("!#$%&'*+-.^_`|~09azAZ: b\r\n"), "GET / h none keep"},
		{"empty value", header("A:\r\nB: \r\n"), "GET / h none keep"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range []*h1.Conn{over(tt.bytes + "next"), trickle(tt.bytes + "next")} {
				var r h1.Request
				if err := c.ReadRequest(&r); err != nil {
					t.Fatal(err)
				}
				if got := describe(&r); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if got := string(r.Raw()); got != strings.TrimPrefix(tt.bytes, "\r\n") {
					t.Errorf("Raw() = %q", got)
				}
				if rest := string(c.Buffered()); !strings.HasPrefix("next", rest) {
					t.Errorf("Buffered() = %q, want what follows the head", rest)
				}
				asFasthttp(t, &r)
			}
		})
	}
}

func describe(r *h1.Request) string {
	var s strings.Builder
	s.WriteString(string(r.Method()) + " " + string(r.Target()) + " " + string(r.Host()) + " " + r.Body.Kind().String())
	if r.Body.Kind() == h1.Length {
		s.WriteString("(" + strconv.FormatInt(r.ContentLength(), 10) + ")")
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{r.KeepAlive(), "keep"}, {r.ExpectsContinue(), "expects"}, {r.RequestsUpgrade(), "upgrades"}} {
		if f.on {
			s.WriteString(" " + f.name)
		}
	}
	return s.String()
}

func TestEndOfRequests(t *testing.T) {
	tests := []struct {
		bytes string
		want  error
	}{
		{"", io.EOF},
		{"\r\n", io.EOF},
		{"\r", io.ErrUnexpectedEOF},
		{"G", io.ErrUnexpectedEOF},
		{"GET / HTTP/1.1\r\n", io.ErrUnexpectedEOF},
		{"GET / HTTP/1.1\r\nHost: h\r\n", io.ErrUnexpectedEOF},
		{"GET / HTTP/1.1\r\nHost: h\r\n\r", io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		for _, c := range []*h1.Conn{over(tt.bytes), trickle(tt.bytes)} {
			var r h1.Request
			if err := c.ReadRequest(&r); !errors.Is(err, tt.want) {
				t.Errorf("ReadRequest of %q = %v, want %v", tt.bytes, err, tt.want)
			}
		}
	}
}

func TestPipelinedRequestsAreReadOneByOne(t *testing.T) {
	c := over("POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" +
		"POST /2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n" +
		"\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n")
	var r h1.Request
	for i, want := range []string{"/1 abc", "/2 de", "/3 "} {
		if err := c.ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(&r.Body)
		if got := string(r.Target()) + " " + string(body); got != want || err != nil {
			t.Errorf("request %d = %q, %v, want %q", i, got, err, want)
		}
		c.ReleaseEmptyBuffers()
	}
	if err := c.ReadRequest(&r); !errors.Is(err, io.EOF) {
		t.Errorf("ReadRequest at the end = %v, want EOF", err)
	}
}

func TestLookupsIgnoreCaseAndKeepOrder(t *testing.T) {
	c := over(header("x-A: 1\r\nCOOKIE: c\r\nX-a:2\r\nShardway-Key: k\r\nshardway-new: n\r\n"))
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	if v := string(r.Value("X-A")); v != "1" {
		t.Errorf("Value(X-A) = %q, want 1", v)
	}
	if i := r.Find("x-a", r.Find("x-a", 0)+1); i != 3 {
		t.Errorf("second x-a is line %d, want 3", i)
	}
	if v := string(r.Known(h1.FieldCookie)); v != "c" {
		t.Errorf("Known(Cookie) = %q, want c", v)
	}
	if !r.Has(h1.FieldShardwayKey) || !r.Has(h1.FieldShardwayOther) || r.Has(h1.FieldShardwayMap) {
		t.Error("Has tells other Shardway fields than those that are there")
	}
	if r.Value("X") != nil || r.Known(h1.FieldTE) != nil {
		t.Error("a missing field has a value")
	}
	var names []string
	for n := range r.All() {
		names = append(names, string(n))
	}
	if got := strings.Join(names, " "); got != "Host x-A COOKIE X-a Shardway-Key shardway-new" {
		t.Errorf("All() yields %q", got)
	}
}
