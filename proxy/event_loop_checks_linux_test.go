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

// answering is an app that answers "right", does with each connection what then says after each
// answer, and counts what it was asked. It ends each connection with the answer of that number;
// zero: with none.
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

// cork has what follows leave together with the end.
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

// surplus is what nobody has asked for.
const surplus = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"

// right asks, and wants the app's answer.
func (c *client) right(method string) {
	c.t.Helper()
	c.send("%s / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n", method)
	if res, body := c.answer(method); res.StatusCode != 200 || body != "right" {
		c.t.Errorf("%s: answer = %d %q, want the app's", method, res.StatusCode, body)
	}
}

// What the app says on a connection that nobody has asked for is no answer to the next request.
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

// A connection that ended with its answer carries no further request, though nobody says so
// again.
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

// A loop sends nothing on a connection that the app has ended.
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
