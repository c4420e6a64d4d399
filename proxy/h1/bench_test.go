package h1_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"shardway/proxy/h1"
)

// endless is a connection that returns the same bytes forever and accepts all writes.
type endless struct {
	net.Conn
	bytes string
	at    int
}

func (c *endless) Read(p []byte) (int, error) {
	n := copy(p, c.bytes[c.at:])
	if c.at += n; c.at == len(c.bytes) {
		c.at = 0
	}
	return n, nil
}

func (c *endless) Write(p []byte) (int, error) { return len(p), nil }

func (c *endless) SetReadDeadline(time.Time) error { return nil }

func (c *endless) SetWriteDeadline(time.Time) error { return nil }

const (
	browserHead = "GET /rooms/42/messages?after=1700000000&limit=50 HTTP/1.1\r\nHost: app.example.com\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
		"Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\n" +
		"Cookie: sid=4f2c8b1e9d7a6f3c; theme=dark\r\nX-Shard-Key: alice\r\n\r\n"
	smallAnswer = "HTTP/1.1 200 OK\r\nServer: app\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
)

var testTimeouts = h1.Timeouts{FirstByte: time.Minute, Header: 10 * time.Second, Body: time.Minute, Write: time.Minute}

func benchConn(s string) *h1.Conn {
	return h1.NewConn(&endless{bytes: s}, h1.Options{Buffers: new(h1.Buffers), Timeouts: testTimeouts})
}

// exchange is one request and its response through a proxy.
type exchange struct {
	client, upstream *h1.Conn
	req              h1.Request
	res              h1.Response
	out, back        h1.Edit
}

func newExchange(request, answer string) *exchange {
	return &exchange{
		client: benchConn(request), upstream: benchConn(answer),
		out: h1.Edit{
			Drop:  h1.Shardway | h1.Forwarding,
			Extra: []byte("X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Host: app.example.com\r\nX-Forwarded-Proto: http\r\nVia: 1.1 shardway\r\nShardway-Shard: 17\r\nShardway-Epoch: 4711\r\n"),
		},
		back: h1.Edit{Drop: h1.Shardway, Extra: []byte("Via: 1.1 shardway\r\n")},
	}
}

func (x *exchange) run() error {
	if err := x.client.ReadRequest(&x.req); err != nil {
		return err
	}
	w := x.upstream.WriteRequestHeader(&x.req, &x.out)
	if _, rerr, werr := w.Copy(&x.req.Body); rerr != nil || werr != nil {
		return rerr
	}
	if err := w.Close(x.req.Body.Trailers()); err != nil {
		return err
	}
	if err := x.upstream.ReadResponse(&x.res, x.req.Method()); err != nil {
		return err
	}
	w = x.client.WriteResponseHeader(&x.res, &x.back)
	if _, rerr, werr := w.Copy(&x.res.Body); rerr != nil || werr != nil {
		return rerr
	}
	if err := w.Close(x.res.Body.Trailers()); err != nil {
		return err
	}
	x.client.ReleaseEmptyBuffers()
	x.upstream.ReleaseEmptyBuffers()
	return nil
}

var exchanges = []struct{ name, request, answer string }{
	{"100B", browserHead, smallAnswer + strings.Repeat("x", 100)},
	{"10KB", browserHead, strings.Replace(smallAnswer, "100\r\n\r", "10240\r\n\r", 1) + strings.Repeat("x", 10240)},
	{
		"chunked",
		strings.Replace(browserHead, "GET", "POST", 1)[:len(browserHead)-1] + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("400\r\n"+strings.Repeat("x", 1024)+"\r\n", 20) + "0\r\n\r\n",
	},
}

func TestExchangesAllocateNothing(t *testing.T) {
	for _, tt := range exchanges {
		x := newExchange(tt.request, tt.answer)
		for range 10 {
			if err := x.run(); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(200, func() { _ = x.run() }); n >= 1 && !raceEnabled {
			t.Errorf("%s: %v allocations, want none", tt.name, n)
		}
	}
}

func BenchmarkExchange(b *testing.B) {
	for _, tt := range exchanges {
		b.Run(tt.name, func(b *testing.B) {
			x := newExchange(tt.request, tt.answer)
			b.ReportAllocs()
			for b.Loop() {
				if err := x.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadRequest(b *testing.B) {
	c := benchConn(browserHead)
	var r h1.Request
	b.ReportAllocs()
	for b.Loop() {
		if err := c.ReadRequest(&r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSocketExchange(b *testing.B) {
	near, far := tcpPair(b)
	o := h1.Options{Buffers: new(h1.Buffers), Timeouts: testTimeouts}
	c := h1.NewConn(near, o)
	go func() {
		p, answer := make([]byte, 64<<10), []byte(smallAnswer+strings.Repeat("x", 100))
		for {
			if _, err := far.Read(p); err != nil {
				return
			}
			if _, err := far.Write(answer); err != nil {
				return
			}
		}
	}()
	x := newExchange(browserHead, "")
	x.upstream = c
	b.ReportAllocs()
	for b.Loop() {
		if err := x.run(); err != nil {
			b.Fatal(err)
		}
	}
}
