package proxy_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"shardway/proxy"
)

// An error response to HEAD has a Content-Length but no body, because a client would read body bytes
// as the beginning of its next response.
func TestErrorResponsesToHEADHaveNoBody(t *testing.T) {
	long := strings.Repeat("a", 20<<10)
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.MaxBody = 10 })
	for name, request := range map[string]string{
		"a bad line":        "HEAD / HTTP/1.1\r\nHost: h\r\nA b\r\n\r\n",
		"a bad target":      "HEAD /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
		"a bad version":     "HEAD / HTTP/1.9\r\nHost: h\r\n\r\n",
		"a bad first line":  "HEAD  / HTTP/1.1\r\nHost: h\r\n\r\n",
		"behind a line":     "\r\nHEAD / HTTP/1.1\r\nHost: h\r\n b\r\n\r\n",
		"a long target":     "HEAD /" + long + " HTTP/1.1\r\nHost: h\r\n\r\n",
		"framed twice":      "HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"no key":            "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
		"two keys":          "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Shard-Key: a\r\nX-Shard-Key: b\r\n\r\n",
		"too long a body":   "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Shard-Key: a\r\nContent-Length: 11\r\n\r\n",
		"after another one": "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: h\r\nA b\r\n\r\n",
	} {
		c := n.dial()
		c.send("%s", request)
		if name == "after another one" {
			c.answer("GET")
		}
		head, err := readHead(c.r)
		if err != nil || !strings.Contains(head, "Shardway-Error: ") || !strings.Contains(head, "\r\nContent-Length: ") ||
			strings.Contains(head, "\r\nContent-Length: 0") {
			t.Errorf("%s: %q, %v", name, head, err)
		}
		if rest, _ := io.ReadAll(c.r); len(rest) > 0 {
			t.Errorf("%s: %q behind the head of an answer to HEAD", name, rest)
		}
	}
	// Nothing of the HEAD request affects the next request.
	c := n.dial()
	c.send("HEAD / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: a\r\n\r\n")
	c.answer("HEAD")
	c.send("GET / HTTP/1.1\r\nHost: h\r\nA b\r\n\r\n")
	if res, body := c.answer("GET"); res.StatusCode != 400 || body == "" {
		t.Errorf("a bad GET after a HEAD: %d %q", res.StatusCode, body)
	}
}

// HTTP/1.0 has no Transfer-Encoding. The field is also removed where it would only declare the framing
// of an absent body.
func TestHTTP10ClientsGetNoChunkedResponse(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					head, err := readHead(r)
					if err != nil {
						return
					}
					status := "200 OK"
					if strings.HasPrefix(head, "GET /same ") {
						status = "304 Not Modified"
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 "+status+"\r\nTransfer-Encoding: chunked\r\nETag: a\r\n\r\n")
				}
			}))
			for request, coded := range map[string]bool{
				"HEAD / HTTP/1.0\r\n": false, "GET /same HTTP/1.0\r\n": false, "HEAD / HTTP/1.1\r\n": true, "GET /same HTTP/1.1\r\n": true,
			} {
				c := front.dial()
				c.send("%sHost: h\r\nX-Shard-Key: k\r\n\r\n", request)
				head, err := readHead(c.r)
				if err != nil || !strings.Contains(head, "ETag: a") || strings.Contains(head, "Transfer-Encoding") != coded {
					t.Errorf("%q: %q, %v; told of Transfer-Encoding: want %v", request, head, err, coded)
				}
			}
		})
	}
}
