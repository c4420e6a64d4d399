package h1_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"shardway/proxy/h1"
)

func TestRequestHeadsOnTheirWayThrough(t *testing.T) {
	tests := []struct {
		name, in string
		edit     h1.Edit
		want     string
	}{
		{
			"order, spelling and empty query stay", "GET /?  HTTP/1.1\r\nb: 1\r\nHost: h\r\nA:2\r\nB: 3\r\n\r\n",
			h1.Edit{},
			"GET /? HTTP/1.1\r\nb: 1\r\nHost: h\r\nA:2\r\nB: 3\r\n\r\n",
		},
		{
			"white space around values goes", "GET / HTTP/1.1\r\nHost: \t h \r\nA: \t b c \t\r\nB:\tc\r\nD: e\r\n\r\n",
			h1.Edit{},
			"GET / HTTP/1.1\r\nHost: h\r\nA: b c\r\nB: c\r\nD: e\r\n\r\n",
		},
		{
			"hop-by-hop fields go",
			"GET / HTTP/1.1\r\nHost: h\r\nConnection: close, X-A\r\nKeep-Alive: 1\r\nProxy-Connection: x\r\nProxy-Authorization: x\r\n" +
				"TE: gzip\r\nUpgrade: h2c\r\nX-A: 1\r\nx-a: 2\r\nX-B: 3\r\nTrailer: q\r\nHTTP2-Settings: x\r\n\r\n",
			h1.Edit{},
			"GET / HTTP/1.1\r\nHost: h\r\nX-B: 3\r\nHTTP2-Settings: x\r\n\r\n",
		},
		{
			"Connection cannot remove what frames or routes",
			"POST / HTTP/1.1\r\nHost: h\r\nConnection: Host, Content-Length\r\nContent-Length: 0\r\n\r\n",
			h1.Edit{},
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
		},
		{
			"dropped and added", "GET / HTTP/1.1\r\nHost: h\r\nShardway-Key: a\r\nshardway-x: b\r\nX-Forwarded-For: c\r\nA: b\r\n\r\n",
			h1.Edit{Drop: h1.Shardway | h1.FieldSetOf(h1.FieldXForwardedFor), Extra: []byte("X-Forwarded-For: c, d\r\nVia: 1.1 e\r\n")},
			"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nX-Forwarded-For: c, d\r\nVia: 1.1 e\r\n\r\n",
		},
		{
			"TE: trailers", "GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: TE\r\n\r\n",
			h1.Edit{Close: true},
			"GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n",
		},
		{
			"upgrade", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n",
			h1.Edit{Upgrade: true},
			"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\nConnection: Upgrade\r\n\r\n",
		},
		{
			"absolute-form", "GET http://h:8/a HTTP/1.1\r\nHost: H:8\r\n\r\n",
			h1.Edit{},
			"GET /a HTTP/1.1\r\nHost: h:8\r\n\r\n",
		},
		{
			"HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n",
			h1.Edit{Host: []byte("up")},
			"GET / HTTP/1.1\r\nHost: up\r\n\r\n",
		},
		{
			"another Host in its place", "GET / HTTP/1.1\r\nA: b\r\nHost: h\r\nC: d\r\n\r\n",
			h1.Edit{Host: []byte("up:1")},
			"GET / HTTP/1.1\r\nA: b\r\nHost: up:1\r\nC: d\r\n\r\n",
		},
		{
			"expectation", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
			h1.Edit{},
			"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
		},
		{
			"expectation dropped", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
			h1.Edit{DropExpect: true},
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n",
		},
		{
			"chunks as a length", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nA: b\r\nTrailer: c\r\n\r\n",
			h1.Edit{Kind: h1.Length, Size: 7},
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\nA: b\r\n\r\n",
		},
		{
			"chunks", "POST / HTTP/1.1\r\nHost: h\r\ntransfer-encoding: CHUNKED\r\nTrailer: c\r\n\r\n",
			h1.Edit{},
			"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: c\r\n\r\n",
		},
		{
			"length written plainly", "POST / HTTP/1.1\r\nHost: h\r\ncontent-LENGTH:\t007\r\n\r\n",
			h1.Edit{},
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r h1.Request
			if err := over(strings.Replace(tt.in, "  HTTP", " HTTP", 1)).ReadRequest(&r); err != nil {
				t.Fatal(err)
			}
			out := new(canned)
			w := h1.NewConn(out, h1.Options{}).WriteRequestHeader(&r, &tt.edit)
			if out.sent.Len() != 0 {
				t.Error("the head left before Flush")
			}
			if err := w.Flush(); err != nil || out.sent.String() != tt.want {
				t.Errorf("sent %q, %v, want %q", out.sent.String(), err, tt.want)
			}
		})
	}
}

func TestAnswerHeadsOnTheirWayThrough(t *testing.T) {
	date := []byte("Thu, 01 Jan 1970 00:00:00 GMT")
	tests := []struct {
		name, method, in string
		edit             h1.Edit
		want             string
		kind             h1.Kind
	}{
		{
			"one date", "GET", "HTTP/1.0 200 Fine\r\nDate: a\r\nServer: s\r\ndate: b\r\nContent-Length: 1\r\n\r\n",
			h1.Edit{Date: date},
			"HTTP/1.1 200 Fine\r\nDate: a\r\nServer: s\r\nContent-Length: 1\r\n\r\n", h1.Length,
		},
		{
			"date added", "GET", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\n",
			h1.Edit{Date: date, KeepAlive: true},
			"HTTP/1.1 200 \r\nContent-Length: 1\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: keep-alive\r\n\r\n", h1.Length,
		},
		{
			"no date for interim answers", "GET", "HTTP/1.1 103 Early\r\nLink: a\r\n\r\n",
			h1.Edit{Date: date},
			"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n", h1.NoBody,
		},
		{
			"until close becomes chunks", "GET", "HTTP/1.0 200 OK\r\nA: b\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n", h1.Chunked,
		},
		{
			"chunks run until close for HTTP/1.0", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: a\r\nA: b\r\n\r\n",
			h1.Edit{ToHTTP10: true, KeepAlive: true},
			"HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\n", h1.UntilClose,
		},
		{
			"HEAD keeps its length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", h1.NoBody,
		},
		{
			"HEAD keeps its chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", h1.NoBody,
		},
		{
			"HEAD for HTTP/1.0 has no chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
			h1.Edit{ToHTTP10: true},
			"HTTP/1.1 200 OK\r\n\r\n", h1.NoBody,
		},
		{
			"304 keeps its length", "GET", "HTTP/1.1 304 Same\r\nContent-Length: 5\r\nETag: x\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 304 Same\r\nContent-Length: 5\r\nETag: x\r\n\r\n", h1.NoBody,
		},
		{
			"204 has no length", "GET", "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 204 No\r\n\r\n", h1.NoBody,
		},
		{
			"204 loses what would frame a body", "GET", "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\nA: b\r\nContent-Length: 5\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 204 No\r\nA: b\r\n\r\n", h1.NoBody,
		},
		{
			"101 loses what would frame a body", "GET", "HTTP/1.1 101 S\r\nTransfer-Encoding: chunked\r\nConnection: upgrade\r\nContent-Length: 5\r\nUpgrade: x\r\n\r\n",
			h1.Edit{Upgrade: true},
			"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", h1.NoBody,
		},
		{
			"HEAD loses a bad length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: x\r\nA: b\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", h1.NoBody,
		},
		{
			"HEAD has one length", "HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\nA: b\r\nContent-Length: 5\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nA: b\r\n\r\n", h1.NoBody,
		},
		{
			"equal lengths are one", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5,5\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", h1.Length,
		},
		{
			"lines are repaired", "GET", "HTTP/1.1 200 OK\r\nA  : b\r\nC: d\r\n  e\r\nF: \x01g\r\nContent-Length: 5\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 200 OK\r\nA: b\r\nC: d    e\r\nF: g\r\nContent-Length: 5\r\n\r\n", h1.Length,
		},
		{
			"fields with bad names are dropped", "GET", "HTTP/1.1 200 OK\r\nX(y): z\r\n w\r\nA: b\r\n\xc3\xa9: c\r\nContent-Length: 5\r\nLast/1: d\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\n", h1.Length,
		},
		{
			"a Trailer line of what is dropped goes", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A, Set-Cookie\r\nTrailer: B\r\n\r\n",
			h1.Edit{},
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: B\r\n\r\n", h1.Chunked,
		},
		{
			"101", "GET", "HTTP/1.1 101 Switch\r\nConnection: upgrade\r\nUpgrade: x\r\nA: b\r\n\r\n",
			h1.Edit{Upgrade: true},
			"HTTP/1.1 101 Switch\r\nUpgrade: x\r\nA: b\r\nConnection: Upgrade\r\n\r\n", h1.NoBody,
		},
		{
			"no type is invented and fields of ours go", "GET", "HTTP/1.1 200 OK\r\nShardway-Refused: x\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
			h1.Edit{Drop: h1.Shardway, Close: true},
			"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", h1.Length,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r h1.Response
			if err := over(tt.in).ReadResponse(&r, []byte(tt.method)); err != nil {
				t.Fatal(err)
			}
			out := new(canned)
			w := h1.NewConn(out, h1.Options{}).WriteResponseHeader(&r, &tt.edit)
			if w.Kind() != tt.kind {
				t.Errorf("Kind() = %v, want %v", w.Kind(), tt.kind)
			}
			if err := w.Flush(); err != nil || out.sent.String() != tt.want {
				t.Errorf("sent %q, %v, want %q", out.sent.String(), err, tt.want)
			}
		})
	}
}

func TestBodiesOnTheirWayThrough(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 5<<10)
	for _, in := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 81920\r\n\r\n" + long,
		"HTTP/1.1 200 OK\r\n\r\n" + long,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n0\r\n13fff\r\n" + long[1:] + "\r\n0\r\nX-T: 1\r\n\r\n",
	} {
		for _, old := range []bool{false, true} {
			for name, c := range map[string]*h1.Conn{"at once": over(in), "in bytes": trickle(in)} {
				var r h1.Response
				if err := c.ReadResponse(&r, nil); err != nil {
					t.Fatal(err)
				}
				out := new(canned)
				w := h1.NewConn(out, h1.Options{}).WriteResponseHeader(&r, &h1.Edit{ToHTTP10: old})
				n, rerr, werr := w.Copy(&r.Body)
				if n != int64(len(long)) || rerr != nil || werr != nil {
					t.Fatalf("%s: Copy = %d, %v, %v", name, n, rerr, werr)
				}
				if err := w.Close(r.Body.Trailers()); err != nil {
					t.Fatal(err)
				}
				var got h1.Response
				if err := over(out.sent.String()).ReadResponse(&got, nil); err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(&got.Body)
				if string(b) != long || err != nil {
					t.Errorf("%s: %d bytes came out, %v", name, len(b), err)
				}
				if w := string(got.Body.Trailers()); got.Body.Kind() == h1.Chunked && r.Body.Kind() == h1.Chunked && w != "X-T: 1\r\n" {
					t.Errorf("%s: trailers %q", name, w)
				}
			}
		}
	}
}

func TestWriterHoldsToTheDeclaredLength(t *testing.T) {
	out := new(canned)
	w := h1.NewConn(out, h1.Options{}).Writer()
	w.BeginBody(h1.Length, 3)
	if _, err := io.WriteString(w, "abcd"); !errors.Is(err, h1.ErrOverrun) {
		t.Errorf("Write past the length = %v, want ErrOverrun", err)
	}
	if _, err := io.WriteString(w, "ab"); err != nil {
		t.Error(err)
	}
	if err := w.Close(nil); !errors.Is(err, h1.ErrUnfinished) {
		t.Errorf("Close short of the length = %v, want ErrUnfinished", err)
	}
	if err := w.Flush(); !errors.Is(err, h1.ErrUnfinished) {
		t.Errorf("Flush after that = %v, want ErrUnfinished", err)
	}
}

func TestWriterPutsSmallChunksTogether(t *testing.T) {
	out := new(canned)
	c := h1.NewConn(out, h1.Options{})
	w := c.Writer()
	w.PutString("head\r\n\r\n")
	w.BeginBody(h1.Chunked, 0)
	writeString(t, w, "hello")
	writeString(t, w, strings.Repeat("x", 16))
	if out.sent.Len() != 0 || c.Sent() != 0 || w.Pending() == 0 {
		t.Error("a small body left before Close")
	}
	if err := w.Close([]byte("A: b\r\n")); err != nil {
		t.Error(err)
	}
	want := "head\r\n\r\n5\r\nhello\r\n10\r\nxxxxxxxxxxxxxxxx\r\n0\r\nA: b\r\n\r\n"
	if got := out.sent.String(); got != want || c.Sent() != int64(len(want)) {
		t.Errorf("sent %q, want %q", got, want)
	}
}
