package proxy_test

import (
	"bufio"
	"io"
	"net"
	"testing"
)

// A resume request gets a new number if its connection breaks. Once, a request that was sent over a
// reused connection was retried with the same number when that connection broke, although the app had
// read it.
func TestResumeRequestHasNumber(t *testing.T) {
	legs := make(chan *eventStreamConn)
	n := newNode(t, "a", rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			head, err := readHead(r)
			if err != nil {
				return
			}
			l := &eventStreamConn{Conn: conn, head: head, over: make(chan struct{})}
			legs <- l
			<-l.over
		}
	}))
	w := &streamWorld{t: t, front: n, legs: legs}
	first := w.opens(getEvents).begins(resumable, "id: 1\n\n")
	w.reads("id: 1\n\n")
	other := n.dial()
	other.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	l := w.another()
	_, _ = io.WriteString(l.Conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	close(l.over)
	other.answer("GET")
	other.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n") // without a key the node responds itself, so it has finished the request before
	other.answer("GET")
	_ = first.Close()
	close(first.over)
	l = w.another().wants(t, "1", "1")
	if same := l.RemoteAddr().String(); same == first.RemoteAddr().String() {
		t.Error("it is not asked on another connection")
	}
	_ = l.Close()
	close(l.over)
	l = w.another().wants(t, "1", "2").begins(resumable, "id: 2\n\n")
	_, _ = io.WriteString(l.Conn, "0\r\n\r\n")
	close(l.over)
	if rest, err := io.ReadAll(w.body); string(rest) != "id: 2\n\n" || err != nil {
		t.Errorf("the stream ended with %q, %v", rest, err)
	}
}
