package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// smallApp is an app with the listen backlog of Python's http.server. It serves one request at a time,
// each on its own connection.
func smallApp(t *testing.T) string {
	t.Helper()
	ln := listen(t)
	tcp, _ := ln.(*net.TCPListener)
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), 5) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				time.Sleep(time.Millisecond)
				_, _ = fmt.Fprint(conn, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		all.Wait()
	})
	return ln.Addr().String()
}

// The release of queued requests does not overflow a small backlog. Once, 500 queued requests were
// released at least 64 at a time to an app whose backlog holds five connections. The kernel drops
// further SYNs, and TCP retries after 1, 3, 7 and 15 seconds, so one in five requests got no response.
func TestReleaseDoesNotOverrunASmallBacklog(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a full backlog does is Linux's way")
	}
	n := newNode(t, "a", smallApp(t), func(o *proxy.Options) { o.QueueWait = 15 * time.Second })
	n.swap(1, 2, held(route.ReasonMoving))
	var crowd []*client
	for range 500 {
		c := n.dial()
		c.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		crowd = append(crowd, c)
	}
	until(t, "all wait", func() bool { return n.room.Stats().Waiting == len(crowd) })
	began := time.Now()
	n.swap(2, 2, local(2))
	codes := map[string]int{}
	for _, c := range crowd {
		res, _ := c.answer("GET")
		codes[res.Status+" "+res.Header.Get("Shardway-Error")]++
	}
	t.Logf("answers after %v: %v", time.Since(began).Round(time.Millisecond), codes)
	if got := codes["200 OK "]; got != len(crowd) {
		t.Errorf("%d of %d were served: %v", got, len(crowd), codes)
	}
}
