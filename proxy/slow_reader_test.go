package proxy_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// endless starts an app whose responses never end, with the framing that the path selects. written
// counts the bytes that were read from the app.
func endless(written *atomic.Int64) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, r *bufio.Reader) {
		head, err := readHead(r)
		if err != nil {
			return
		}
		path, _, _ := strings.Cut(strings.TrimPrefix(head, "GET /"), " ")
		piece := strings.Repeat("x", 0x4000)
		begin := map[string]string{
			"length":  "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n",
			"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
			"close":   "HTTP/1.1 200 OK\r\n\r\n",
			"events":  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ",
		}[path]
		if path == "chunked" {
			piece = "4000\r\n" + piece + "\r\n"
		}
		for _, err = io.WriteString(conn, begin); err == nil; {
			var n int
			n, err = io.WriteString(conn, piece)
			written.Add(int64(n))
		}
	}
}

// Clients that request large responses and do not read them block the app. Each uses up to two buffers
// at every node on the path, regardless of the response, so --max-conns limits the total. A connection has
// both at the moment when a larger buffer replaces the header buffer.
func TestSlowReadersKeepTwoBuffersEach(t *testing.T) {
	const readers, most, head = 6, 2 * 32 << 10, 8 << 10
	for way, start := range ways() {
		for _, path := range []string{"length", "chunked", "close", "events"} {
			t.Run(way+" "+path, func(t *testing.T) {
				var written atomic.Int64
				front, owner := start(t, rawApp(t, endless(&written)))
				var all []*client
				for range readers {
					c := front.dial()
					c.send("GET /%s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", path)
					all = append(all, c)
				}
				peak := int64(0)
				look := func() (kept int64) {
					kept = max(front.lent.Load(), owner.lent.Load())
					peak = max(peak, kept)
					return kept
				}
				for _, c := range all {
					if _, err := c.r.Peek(1); err != nil {
						t.Fatal(err)
					}
					look()
				}
				last, same, kept := int64(0), 0, int64(0)
				until(t, "the app waits", func() bool {
					kept = look()
					if now := written.Load(); now > last {
						last, same = now, 0
					}
					same++
					return same > 50 && last > readers*2*most
				})
				if kept == 0 || kept > readers*most {
					t.Errorf("%d bytes are kept for %d readers of %d bytes, want %d each at most", kept, readers, last, most)
				}
				if peak > readers*(most+head) {
					t.Errorf("%d bytes were kept for a moment, want %d more at most", peak, readers*head)
				}
				t.Logf("%d bytes kept, %d at most, %d written", kept, peak, last)
				for _, c := range all {
					_ = c.Close()
				}
				until(t, "all buffers are given back", func() bool { return front.lent.Load() == 0 && owner.lent.Load() == 0 })
			})
		}
	}
}
