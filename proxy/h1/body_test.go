package h1_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"shardway/proxy/h1"
)

const chunkedHead = "POST / HTTP/1.1\r\nHost: h\r\nConnection: X-Named\r\nTransfer-Encoding: chunked\r\n\r\n"

// bodies returns two requests with the same body: one whose bytes arrive at once, and one whose bytes
// arrive one by one.
func bodies(t *testing.T, bytes string) []*h1.Request {
	t.Helper()
	var rs []*h1.Request
	for _, c := range []*h1.Conn{over(bytes), trickle(bytes)} {
		r := new(h1.Request)
		if err := c.ReadRequest(r); err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	return rs
}

func TestChunkedBodies(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<10)
	tests := []struct{ name, bytes, body, trailers string }{
		{"empty", "0\r\n\r\n", "", ""},
		{"two chunks", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde", ""},
		{"upper and lower hex, zeros", "00A\r\n0123456789\r\n0000b\r\n0123456789a\r\n000\r\n\r\n", "01234567890123456789a", ""},
		{"extensions", "3;a;b=c;d=\"e \\\" f\"\r\nabc\r\n0;x=\"\"\r\n\r\n", "abc", ""},
		{"trailers", "1\r\na\r\n0\r\nX-A: 1\r\nx-b:\t2\r\n\r\n", "a", "X-A: 1\r\nx-b:\t2\r\n"},
		{"trailer that Connection names", "0\r\nx-named: 1\r\nX-A: 1\r\n\r\n", "", "X-A: 1\r\n"},
		{"data like a last chunk", "5\r\n0\r\n\r\n\r\n0\r\n\r\n", "0\r\n\r\n", ""},
		{"long chunk", "4000\r\n" + long + "\r\n0\r\n\r\n", long, ""},
		{"long chunks", "4000\r\n" + long + "\r\n4000\r\n" + long + "\r\n0\r\n\r\n", long + long, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range bodies(t, chunkedHead+tt.bytes+"NEXT") {
				got, err := io.ReadAll(&r.Body)
				if string(got) != tt.body || err != nil {
					t.Errorf("body = %q, %v, want %q", got, err, tt.body)
				}
				if string(r.Body.Trailers()) != tt.trailers || !r.Body.Done() {
					t.Errorf("Trailers() = %q, want %q", r.Body.Trailers(), tt.trailers)
				}
				if _, err := r.Body.Read(make([]byte, 9)); !errors.Is(err, io.EOF) {
					t.Errorf("Read behind the end = %v, want EOF", err)
				}
			}
		})
	}
}

func TestRefusedChunks(t *testing.T) {
	tests := []struct{ name, bytes string }{
		{"no size", "\r\nabc\r\n0\r\n\r\n"},
		{"signed size", "+3\r\nabc\r\n0\r\n\r\n"},
		{"negative size", "-3\r\nabc\r\n0\r\n\r\n"},
		{"prefixed size", "0x3\r\nabc\r\n0\r\n\r\n"},
		{"size with an underscore", "1_0\r\nabc\r\n0\r\n\r\n"},
		{"letter", "g\r\nabc\r\n0\r\n\r\n"},
		{"space before the size", " 3\r\nabc\r\n0\r\n\r\n"},
		{"seventeen digits", "00000000000000003\r\nabc\r\n0\r\n\r\n"},
		{"overflow", "ffffffffffffffff\r\nabc\r\n0\r\n\r\n"},
		{"overflow to three", "10000000000000003\r\nabc\r\n0\r\n\r\n"},
		{"bare LF behind the size", "3\nabc\r\n0\r\n\r\n"},
		{"bare CR behind the size", "3\rabc\r\n0\r\n\r\n"},
		{"CR CR LF behind the size", "3\r\r\nabc\r\n0\r\n\r\n"},
		{"bare LF behind the data", "3\r\nabc\n0\r\n\r\n"},
		{"data longer than its size", "3\r\nabcd\r\n0\r\n\r\n"},
		{"data shorter than its size", "3\r\nab\r\n0\r\n\r\n"},
		{"nothing behind the data", "3\r\nabc0\r\n\r\n"},
		{"control byte in an extension", "3;a=\"\x01\"\r\nabc\r\n0\r\n\r\n"},
		{"open quote", "3;a=\"b\r\nabc\r\n0\r\n\r\n"},
		{"escaped end of a quote", "3;a=\"b\\\"\r\nabc\r\n0\r\n\r\n"},
		{"CR in an extension", "3;a=\"\r\"\r\nabc\r\n0\r\n\r\n"},
		{"LF in an extension", "3;a=\"\n\"\r\nabc\r\n0\r\n\r\n"},
		{"long extension", "3;a=" + strings.Repeat("b", 1<<10) + "\r\nabc\r\n0\r\n\r\n"},
		{"endless extension", "3;a=" + strings.Repeat("b", 9<<10)},
		{"many extensions", strings.Repeat("1;a="+strings.Repeat("b", 500)+"\r\nx\r\n", 9)},
		{"last chunk with a bare LF", "0\n\r\n"},
		{"trailer section with a bare LF", "0\r\n\n"},
		{"trailer with a bare LF", "0\r\nA: b\n\r\n"},
		{"folded trailer", "0\r\nA: b\r\n c\r\n\r\n"},
		{"trailer without a colon", "0\r\nA\r\n\r\n"},
		{"trailer named like a framing field", "0\r\n(Content-Length: 1\r\n\r\n"},
		{"trailer with a control byte in its name", "0\r\nA\x01: 1\r\n\r\n"},
		{"trailer with NUL", "0\r\nA: \x00\r\n\r\n"},
		{"endless trailer", "0\r\nA: " + strings.Repeat("b", 9<<10)},
		{"a request behind a short chunk", "1\r\nabGET / HTTP/1.1\r\nHost: h\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range bodies(t, chunkedHead+tt.bytes) {
				_, err := io.ReadAll(&r.Body)
				wantStatus(t, err, 400)
				if _, again := r.Body.Read(make([]byte, 1)); !errors.Is(again, err) {
					t.Errorf("error after the error = %v, want it again", again)
				}
			}
			r := answer(t, tt.bytes)
			_, err := io.ReadAll(&r.Body)
			if strings.HasPrefix(tt.name, "endless trailer") {
				if !errors.Is(err, io.ErrUnexpectedEOF) { // dropped until its end arrives
					t.Errorf("error = %v, want an unexpected end", err)
				}
				return
			}
			wantStatus(t, err, 502)
		})
	}
}

// A chunk that is rejected in a request but has only one interpretation is repaired in a response.
func TestChunksThatAreRepairedInResponses(t *testing.T) {
	for name, bytes := range map[string]string{
		"space behind the size":            "3 \r\nabc\r\n0\r\n\r\n",
		"tab behind the size":              "3\t\r\nabc\r\n0\r\n\r\n",
		"space before an extension":        "3 ;a\r\nabc\r\n0\r\n\r\n",
		"empty extension":                  "3;\r\nabc\r\n0\r\n\r\n",
		"extension without a name":         "3;=a\r\nabc\r\n0\r\n\r\n",
		"extension without a value":        "3;a=\r\nabc\r\n0\r\n\r\n",
		"space in an extension":            "3;a b\r\nabc\r\n0\r\n\r\n",
		"trailer with a space in its name": "0\r\nA : b\r\n\r\n",
		"trailer with a bad name":          "0\r\nX(y): b\r\n\r\n",
		"long trailers":                    "0\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 9) + "\r\n",
		"many trailers":                    "0\r\n" + strings.Repeat("A: b\r\n", 65) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range bodies(t, chunkedHead+bytes) {
				_, err := io.ReadAll(&r.Body)
				wantStatus(t, err, 400)
			}
			want := "abc"
			if strings.HasPrefix(bytes, "0") {
				want = ""
			}
			r := answer(t, bytes)
			if b, err := io.ReadAll(&r.Body); string(b) != want || err != nil || !r.Body.Done() {
				t.Errorf("body of the response = %q, %v, want %q", b, err, want)
			}
		})
	}
}

// A field that is not allowed in a trailer is dropped, and the others are kept.
func TestForbiddenTrailersAreDropped(t *testing.T) {
	for name, bytes := range map[string]string{
		"Content-Length":    "0\r\nContent-Length: 1\r\n\r\n",
		"Transfer-Encoding": "0\r\ntransfer-encoding: chunked\r\n\r\n",
		"Host":              "0\r\nHost: h\r\n\r\n",
		"Authorization":     "0\r\nAuthorization: x\r\n\r\n",
		"Cookie":            "0\r\nCookie: x\r\n\r\n",
		"Set-Cookie":        "0\r\nSet-Cookie: x\r\n\r\n",
		"Connection":        "0\r\nConnection: close\r\n\r\n",
		"Trailer":           "0\r\nTrailer: a\r\n\r\n",
		"Content-Encoding":  "0\r\nContent-Encoding: gzip\r\n\r\n",
		"X-Forwarded-For":   "0\r\nX-Forwarded-For: 1\r\n\r\n",
		"Shardway-Key":      "0\r\nShardway-Key: k\r\n\r\n",
		"Shardway-X":        "0\r\nshardway-x: k\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			bytes = strings.Replace(bytes, "0\r\n", "0\r\nA: b\r\n", 1)
			r := answer(t, bytes)
			all := []*h1.Body{&r.Body}
			for _, r := range bodies(t, chunkedHead+bytes) {
				all = append(all, &r.Body)
			}
			for _, b := range all {
				if _, err := io.ReadAll(b); err != nil || string(b.Trailers()) != "A: b\r\n" {
					t.Errorf("trailers %q, %v, want one", b.Trailers(), err)
				}
				if n, first := b.DroppedTrailers(); n != 1 || !strings.EqualFold(first, name) {
					t.Errorf("%d dropped, %q first, want %s", n, first, name)
				}
			}
		})
	}
}

// A response is complete when its trailer section arrives, so fields beyond the limits are dropped and
// do not fail it.
func TestTrailersOfResponsesBeyondTheBoundsAreDropped(t *testing.T) {
	for name, c := range map[string]struct {
		bytes         string
		kept, dropped int
	}{
		"too many":          {strings.Repeat("A: b\r\n", 100), 64, 36},
		"too long":          {strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 20), 8, 12},
		"one too long":      {"A: b\r\nB: " + strings.Repeat("b", 100<<10) + "\r\nC: d\r\n", 2, 1},
		"one much too long": {"B: " + strings.Repeat("b", 10<<20) + "\r\n", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := answer(t, "3\r\nabc\r\n0\r\n"+c.bytes+"\r\n")
			b, err := io.ReadAll(&r.Body)
			n, _ := r.Body.DroppedTrailers()
			if kept := strings.Count(string(r.Body.Trailers()), "\n"); string(b) != "abc" || err != nil || kept != c.kept || n != c.dropped {
				t.Errorf("body %q, %v, %d trailers kept, %d dropped, want %d and %d", b, err, kept, n, c.kept, c.dropped)
			}
		})
	}
}

func answer(t *testing.T, bytes string) *h1.Response {
	t.Helper()
	r := new(h1.Response)
	if err := over("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+bytes).ReadResponse(r, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTruncatedBodiesAreErrors(t *testing.T) {
	for _, whole := range []string{
		chunkedHead + "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nA: b\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde",
	} {
		head := strings.Index(whole, "\r\n\r\n") + 4
		for i := head; i < len(whole); i++ {
			for _, r := range bodies(t, whole[:i]) {
				if b, err := io.ReadAll(&r.Body); !errors.Is(err, io.ErrUnexpectedEOF) || r.Body.Done() {
					t.Errorf("body cut at %d = %q, %v, want an unexpected end", i-head, b, err)
				}
			}
		}
	}
}

func TestBodyReaderKeepsTheRulesOfReaders(t *testing.T) {
	want := strings.Repeat("abcdefgh", 4<<10)
	for _, bytes := range []string{
		chunkedHead + "1000\r\n" + want[:4096] + "\r\n7000\r\n" + want[4096:] + "\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 32768\r\n\r\n" + want + "next",
	} {
		for _, r := range bodies(t, bytes) {
			if err := iotest.TestReader(&r.Body, []byte(want)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestUntilCloseBodyEndsWithTheConnection(t *testing.T) {
	var r h1.Response
	if err := over("HTTP/1.1 200 OK\r\n\r\nabc").ReadResponse(&r, nil); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(&r.Body); string(b) != "abc" || err != nil || !r.Body.Done() {
		t.Errorf("body = %q, %v, want abc", b, err)
	}
}

func TestBodyLimit(t *testing.T) {
	for _, r := range bodies(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde") {
		if err := r.Body.SetMaxBytes(5); err != nil {
			t.Errorf("Limit(5) of 5 bytes = %v", err)
		}
		wantStatus(t, r.Body.SetMaxBytes(4), 413)
		_, err := r.Body.Read(make([]byte, 9))
		wantStatus(t, err, 413)
	}
	for _, r := range bodies(t, chunkedHead+"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n") {
		if err := r.Body.SetMaxBytes(5); err != nil {
			t.Fatal(err)
		}
		_, err := io.ReadAll(&r.Body)
		wantStatus(t, err, 413)
	}
}

func TestDrainStopsAtNextRequest(t *testing.T) {
	for _, body := range []string{
		chunkedHead + "3\r\nabc\r\n0\r\nA: b\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		c := over(body + "GET /next HTTP/1.1\r\nHost: h\r\n\r\n")
		var r h1.Request
		if err := c.ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
		if err := r.Body.Drain(3); err != nil {
			t.Errorf("Drain(3) = %v", err)
		}
		if err := c.ReadRequest(&r); err != nil || string(r.Target()) != "/next" {
			t.Errorf("request behind a drained body: %q, %v", r.Target(), err)
		}
	}
	for _, body := range []string{
		chunkedHead + "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nabcd",
	} {
		for _, r := range bodies(t, body) {
			if err := r.Body.Drain(3); !errors.Is(err, h1.ErrDrainLimit) {
				t.Errorf("Drain(3) of 4 bytes = %v, want ErrDrainLimit", err)
			}
		}
	}
}

func TestFillReportsWhetherTheBodyFits(t *testing.T) {
	for _, tt := range []struct {
		bytes string
		size  int
		want  string
		done  bool
	}{
		{chunkedHead + "3\r\nabc\r\n0\r\n\r\n", 8, "abc", true},
		{chunkedHead + "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", 3, "abc", false},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", 3, "abc", true},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", 2, "ab", false},
		{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 2, "", true},
	} {
		for _, r := range bodies(t, tt.bytes) {
			p := make([]byte, tt.size)
			n, done, err := r.Body.Fill(p)
			if string(p[:n]) != tt.want || done != tt.done || err != nil {
				t.Errorf("Fill(%d) = %q, %v, %v, want %q, %v", tt.size, p[:n], done, err, tt.want, tt.done)
			}
		}
	}
	for _, r := range bodies(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab") {
		if _, _, err := r.Body.Fill(make([]byte, 3)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Fill of a cut body = %v", err)
		}
	}
}
