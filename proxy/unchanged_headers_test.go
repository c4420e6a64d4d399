package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// isOwn reports whether nodes add this header line themselves.
func isOwn(line string) bool {
	name, _, _ := strings.Cut(line, ":")
	return slices.Contains([]string{
		"Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id",
		"Shardway-Shard", "Shardway-Key", "Shardway-Epoch", "Shardway-Node",
	}, name)
}

// All other header lines arrive unchanged, in the same order.
func TestHeadersArriveUnchanged(t *testing.T) {
	const (
		request = "GET /A/%7e//b/../c;d?e=%zz&&? HTTP/1.1\r\nHost: Example:80\r\nX-Shard-Key: k\r\nx-b: 2\r\nX-B:1\r\nTRACEPARENT: 00-ab-cd-01\r\n" +
			"Cookie: a=b\r\nCookie: c=d\r\nAccept-Encoding: gzip\r\nAuthorization: Basic x\r\nEmpty:\r\nX-Latin: \xe4\r\nRange: bytes=0-1\r\n\r\n"
		answer = "HTTP/1.1 299 Quite  OK\r\nserver: app/1\r\nX-b: 2\r\nx-B: 1\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n" +
			"Content-Encoding: gzip\r\nEmpty:\r\nETag: \"x\"\r\nContent-Length: 2\r\n\r\nhi"
		dateless = "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"
	)
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			heads := make(chan string, 2)
			front, _ := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				for _, text := range []string{answer, dateless} {
					head, err := readHead(r)
					if err != nil {
						return
					}
					heads <- head
					_, _ = io.WriteString(conn, text)
				}
			}))
			c := front.dial()
			c.send("%s", request)
			got := make([]byte, len(answer))
			if _, err := io.ReadFull(c.r, got); err != nil || string(got) != answer {
				t.Errorf("the client got %q, %v; want %q", got, err, answer)
			}
			lines := strings.Split(<-heads, "\r\n")
			if kept := strings.Join(slices.DeleteFunc(lines, isOwn), "\r\n"); kept != request {
				t.Errorf("the app got %q, want %q", kept, request)
			}
			c.send("%s", request)
			head, err := readHead(c.r)
			if err != nil {
				t.Fatal(err)
			}
			date := ""
			for line := range strings.SplitSeq(head, "\r\n") {
				if v, ok := strings.CutPrefix(line, "Date: "); ok {
					date = v
				}
			}
			if want := fmt.Sprintf("HTTP/1.1 200 \r\nContent-Length: 0\r\nDate: %s\r\n\r\n", date); date == "" || head != want {
				t.Errorf("the client got %q, want a Date and nothing else", head)
			}
		})
	}
}
