package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"

	"shardway/proxy"
)

// answering starts an app that responds "right", counts requests in asked, and calls then after each
// response. It closes each connection with response number last. Zero means that it does not.
func answering(t *testing.T, asked *int, last int, then func(conn *net.TCPConn)) string {
	t.Helper()
	return rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			t.Errorf("%T is no TCP connection", conn)
			return
		}
		for n := 1; ; n++ {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			*asked++
			if n == last {
				cork(t, tcp)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright")
			if n == last {
				return
			}
			then(tcp)
		}
	})
}

// cork delays the following data, so that it is sent together with the FIN.
func cork(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1) })
	}
	if err != nil {
		t.Error(err)
	}
}

// surplus is an unsolicited response.
const surplus = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"

// right sends a request and expects the response "right".
func (c *client) right(method string) {
	c.t.Helper()
	c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", method)
	if res, body := c.answer(method); res.StatusCode != 200 || body != "right" {
		c.t.Errorf("%s: answer = %d %q, want the app's", method, res.StatusCode, body)
	}
}

// Data that the app sends on an idle connection is not used as the response to the next request.
func TestEventLoopRejectsUnsolicitedData(t *testing.T) {
	var asked int
	told := make(chan *net.TCPConn, 1)
	n := newNode(t, "a", answering(t, &asked, 0, func(conn *net.TCPConn) { told <- conn }))
	c := n.dialToLoop()
	<-told
	for range 3 {
		c.right("GET")
		_, _ = io.WriteString(<-told, surplus)
		c.right("GET")
		<-told
	}
}

// A connection that ends together with its response is not reused, although epoll reports no further
// event for it.
func TestEventLoopReusesNoConnThatEndsWithResponse(t *testing.T) {
	var asked int
	n := newNode(t, "a", answering(t, &asked, 3, func(*net.TCPConn) {}))
	c := n.dialToLoop()
	for range 20 {
		c.right("GET")
	}
	if broken := metric(t, n, "shardway_retries_total", "broken"); broken != 0 {
		t.Errorf("%v requests were sent on connections that had ended", broken)
	}
}

// An event loop sends nothing on a connection that the app has closed.
func TestEventLoopChecksConnBeforeUnsafeRequest(t *testing.T) {
	for _, method := range []string{"POST", "GET"} {
		t.Run(method, func(t *testing.T) {
			var asked int
			told := make(chan *net.TCPConn, 1)
			n := newNode(t, "a", answering(t, &asked, 0, func(conn *net.TCPConn) { told <- conn }), func(o *proxy.Options) { o.MaxUpstreamConns = 1 })
			c := n.dialToLoop()
			<-told
			c.right("GET")
			conn := <-told
			_ = conn.Close()
			if c.right(method); t.Failed() {
				return
			}
			<-told
			if asked != 3 {
				t.Errorf("the app was asked %d times, want 3", asked)
			}
		})
	}
}
