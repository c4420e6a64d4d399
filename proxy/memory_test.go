package proxy_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// quiet is an app that begins a response and then sends nothing more: an event stream, a WebSocket,
// another stream, or not even headers.
func quiet(conn net.Conn, r *bufio.Reader) {
	for {
		head, err := readHead(r)
		if err != nil {
			return
		}
		path, _, _ := strings.Cut(strings.TrimPrefix(head, "GET /"), " ")
		say, ok := map[string]string{
			"events":  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n",
			"chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
			"length":  "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\npart",
			"close":   "HTTP/1.1 200 OK\r\n\r\npart",
			"socket":  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x04part",
			"upgrade": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\npart",
			"idle":    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npart",
		}[path]
		if _, err := io.WriteString(conn, say); err != nil {
			return
		}
		if path != "idle" && ok {
			_, _ = io.Copy(io.Discard, r)
			return
		}
	}
}

// Idle connections keep no buffer. Once, an idle event stream kept two buffers of 32 KiB and a long
// poll two of 8 KiB. A node with ten thousand of them used half a gigabyte for nothing.
func TestIdleConnsKeepNoBuffer(t *testing.T) {
	for way, start := range ways() {
		for path, upgrade := range map[string]string{
			"idle": "", "poll": "", "events": "", "chunks": "", "length": "", "close": "", "socket": "websocket", "upgrade": "thing",
		} {
			t.Run(way+" "+path, func(t *testing.T) {
				front, owner := start(t, rawApp(t, quiet))
				c := front.dial()
				if upgrade != "" {
					upgrade = "Connection: Upgrade\r\nUpgrade: " + upgrade + "\r\n"
				}
				for range 2 { // more than fits into the buffer of the first bytes
					c.send("GET /idle HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
					c.answer("GET")
				}
				c.send("GET /%s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s\r\n", path, upgrade)
				if path != "poll" {
					if _, err := c.r.Peek(1); err != nil {
						t.Fatal(err)
					}
				}
				until(t, "all buffers are given back", func() bool { return front.lent.Load() == 0 && owner.lent.Load() == 0 })
			})
		}
	}
}

// A queued request counts with all memory that it keeps. A buffer counts with its full size, even if
// it is half empty.
func TestQueuedRequestsCountTheirMemory(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.QueueWait = time.Minute })
	n.swap(1, 2, held(route.ReasonMoving))
	get, post := n.dial(), n.dial()
	get.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "the GET waits", func() bool { return n.room.Stats().Waiting == 1 })
	lines := n.room.Stats().Bytes
	if lines < 300 || lines > 4<<10 || n.lent.Load() != 0 {
		t.Errorf("a GET counts %d bytes, and has %d bytes of buffers", lines, n.lent.Load())
	}
	post.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5000\r\n\r\n%s", bytes.Repeat([]byte("x"), 5000))
	until(t, "both wait", func() bool { return n.room.Stats().Waiting == 2 })
	if b := n.room.Stats().Bytes - lines; b < 8<<10 {
		t.Errorf("a POST of 5000 bytes counts %d, but has a buffer of 8 KiB", b)
	}
	n.swap(2, 2, local(2))
	for _, c := range []*client{get, post} {
		if res, body := c.answer("GET"); res.StatusCode != 200 {
			t.Errorf("answer = %v %s", res.Status, body)
		}
	}
}
