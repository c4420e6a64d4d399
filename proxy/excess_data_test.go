package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// An app may send more than its response. The data arrives when its connection is idle, and must not
// be used as a response to the next request, which may be another client's.
func TestExcessResponseDataIsDiscarded(t *testing.T) {
	for way, start := range ways() {
		for _, method := range []string{"GET", "POST"} {
			t.Run(way+" "+method, func(t *testing.T) {
				idle, said := make(chan struct{}), make(chan struct{})
				addr := rawApp(t, func(conn net.Conn, r *bufio.Reader) {
					for {
						req, err := http.ReadRequest(r)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, req.Body)
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine")
						if req.URL.Path == "/more" {
							<-idle
							_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nothers")
							said <- struct{}{}
						}
					}
				})
				front, owner := start(t, addr)
				for range 5 {
					if _, body := front.dial().get("/more"); body != "mine" {
						t.Fatalf("body = %q", body)
					}
					idle <- struct{}{}
					<-said
					c := front.dial()
					c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 3\r\n\r\nabc", method)
					if res, body := c.answer(method); res.StatusCode != 200 || body != "mine" {
						t.Fatalf("answer = %s %q, want its own", res.Status, body)
					}
				}
				if n := metric(t, owner, "shardway_retries_total", "unsent"); n != 0 {
					t.Errorf("%v connections that were found to have ended count as requests sent again", n)
				}
			})
		}
	}
}
