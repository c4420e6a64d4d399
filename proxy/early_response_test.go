package proxy_test

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The end of an early response is forwarded without delay and contains Connection: close. Once, the
// end of a response to an upload in progress waited 50 ms at each node, and did not announce that the
// connection closes.
func TestEarlyResponseDoesNotWaitForRequestBody(t *testing.T) {
	for _, way := range []string{"local", "remote"} {
		for framing, answer := range map[string]string{
			"chunked": "Transfer-Encoding: chunked\r\n\r\n3\r\nbig\r\n0\r\n\r\n", "sized": "Content-Length: 3\r\n\r\nbig",
		} {
			t.Run(way+" "+framing, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sim := newSim(t)
					left := make(chan struct{})
					refusing := func(conn net.Conn, r *bufio.Reader) {
						if _, err := readHead(r); err == nil {
							_, _ = io.WriteString(conn, "HTTP/1.1 413 No\r\n"+answer)
							_, _ = io.Copy(io.Discard, r)
							left <- struct{}{}
						}
					}
					front := simNode(t, sim, "owner", refusing)
					if way == "remote" {
						owner := front
						front = simNode(t, sim, "ingress", refusing)
						front.knows("owner", owner)
						front.swap(1, 1, remote("owner", 1))
					}
					for _, framed := range []string{"Content-Length: 1000000", "Transfer-Encoding: chunked", "Content-Length: 1000000\r\nExpect: 100-continue"} {
						c := front.dial()
						began := time.Now()
						c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s\r\n\r\n", framed)
						if !strings.Contains(framed, "Expect") {
							c.send("5\r\nhello\r\n")
						}
						res, body := c.answer("POST")
						if took := time.Since(began); res.StatusCode != 413 || body != "big" || took != 0 {
							t.Errorf("%s: %d %q after %v", framed, res.StatusCode, body, took)
						}
						if got := res.Header.Values("Connection"); !res.Close || len(got) > 1 {
							t.Errorf("%s: the end of the connection is not said once: %q", framed, got)
						}
						c.closed()
						<-left // the app's connection is not kept either
						_ = c.Close()
					}
				})
			})
		}
	}
}

// A response after the complete body keeps the upstream and the client connection, regardless of the order
// in which the two goroutines are scheduled.
func TestResponseToCompleteBodyKeepsConn(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo))
			c := front.dial()
			big := strings.Repeat("x", 100<<10)
			for i, text := range slices.Repeat([]string{"hello", big}, 20) {
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n")
				c.send("%x\r\n%s\r\n", len(text), text)
				c.send("0\r\n\r\n")
				if res, body := c.answer("POST"); res.Close || body != "POST / "+text {
					t.Fatalf("request %d: %v, close %v", i, res.Status, res.Close)
				}
			}
		})
	}
}
