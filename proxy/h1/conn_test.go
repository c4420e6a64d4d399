package h1_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"shardway/proxy/h1"
)

// tcpPair returns both ends of a loopback connection.
func tcpPair(tb testing.TB) (near, far net.Conn) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer shut(tb, ln)
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := ln.Accept()
		accepted <- c
	}()
	near, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	far = <-accepted
	tb.Cleanup(func() { _, _ = near.Close(), far.Close() }) // may be the second call
	return near, far
}

// writeString writes s to w and fails the test on an error.
func writeString(tb testing.TB, w io.Writer, s string) {
	tb.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		tb.Error(err)
	}
}

// shut closes c and fails the test on an error.
func shut(tb testing.TB, c io.Closer) {
	tb.Helper()
	if err := c.Close(); err != nil {
		tb.Error(err)
	}
}

// swallow reads and discards n bytes from r, or all bytes if n is negative.
func swallow(tb testing.TB, r io.Reader, n int64) {
	tb.Helper()
	if n >= 0 {
		r = io.LimitReader(r, n)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		tb.Error(err)
	}
}

func TestForwardedExchangeKeepsWhatIsNotHopByHop(t *testing.T) {
	client, front := tcpPair(t)
	back, app := tcpPair(t)
	bufs := new(h1.Buffers)
	cc := h1.NewConn(front, h1.Options{Buffers: bufs})
	uc := h1.NewConn(back, h1.Options{Buffers: bufs})
	writeString(t, client, "POST /a?x= HTTP/1.1\r\nhOst: h\r\nX-One:1\r\nConnection: X-Gone\r\nx-gone: 1\r\ncontent-length: 5\r\nShardway-Key: z\r\nX-Two:  2 \r\n\r\nhello")
	var req h1.Request
	if err := cc.ReadRequest(&req); err != nil {
		t.Fatal(err)
	}
	w := uc.WriteRequestHeader(&req, &h1.Edit{Drop: h1.Shardway, Extra: []byte("Via: 1.1 x\r\n")})
	if n, rerr, werr := w.Copy(&req.Body); n != 5 || rerr != nil || werr != nil {
		t.Fatalf("Copy = %d, %v, %v", n, rerr, werr)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	want := "POST /a?x= HTTP/1.1\r\nHost: h\r\nX-One:1\r\nContent-Length: 5\r\nX-Two: 2\r\nVia: 1.1 x\r\n\r\nhello"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(app, got); err != nil || string(got) != want {
		t.Fatalf("the app got %q, %v, want %q", got, err, want)
	}
	writeString(t, app, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nServer: s\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n")
	var res h1.Response
	if err := uc.ReadResponse(&res, req.Method()); err != nil {
		t.Fatal(err)
	}
	w = cc.WriteResponseHeader(&res, &h1.Edit{Date: []byte("now")})
	if n, rerr, werr := w.Copy(&res.Body); n != 5 || rerr != nil || werr != nil {
		t.Fatalf("Copy = %d, %v, %v", n, rerr, werr)
	}
	if err := w.Close(res.Body.Trailers()); err != nil {
		t.Fatal(err)
	}
	cc.ReleaseEmptyBuffers()
	uc.ReleaseEmptyBuffers()
	shut(t, front)
	all, err := io.ReadAll(client)
	want = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nServer: s\r\nDate: now\r\n\r\n5\r\nabcde\r\n0\r\nX-T: 1\r\n\r\n"
	if string(all) != want || err != nil {
		t.Fatalf("the client got %q, %v, want %q", all, err, want)
	}
	if !uc.IsAlive() {
		t.Error("Alive() = false between two exchanges")
	}
	if strings.Contains(string(req.Raw()), "hello") {
		t.Error("Raw() reaches into the body")
	}
}
