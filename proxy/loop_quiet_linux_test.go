package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"shardway/proxy"
	"shardway/shardmap"
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

// A loop does not look at a connection on which it would have heard of anything to read; what
// the app says on one that nobody has asked for is no answer to the next request.
func TestWhatNobodyAskedForIsNoAnswerInALoop(t *testing.T) {
	var asked int
	told := make(chan *net.TCPConn, 1)
	n := newNode(t, "a", answering(t, &asked, 0, func(conn *net.TCPConn) { told <- conn }))
	c := n.looped()
	<-told
	for range 3 {
		c.right("GET")
		_, _ = io.WriteString(<-told, surplus)
		c.right("GET")
		<-told
	}
	// An app that has said so much once may again, before a loop hears of it.
	c.right("GET")
	conn := <-told
	until(t, "no loop hears the app", func() bool { return n.DeafenLoops() > 0 })
	_, _ = io.WriteString(conn, surplus)
	c.right("GET")
}

// A connection that ended with its answer carries no further request, though nobody says so
// again.
func TestConnectionThatEndsWithItsAnswerCarriesNoOtherInALoop(t *testing.T) {
	var asked int
	n := newNode(t, "a", answering(t, &asked, 3, func(*net.TCPConn) {}))
	c := n.looped()
	for range 20 {
		c.right("GET")
	}
	if broken := metric(t, n, "shardway_retries_total", "broken"); broken != 0 {
		t.Errorf("%v requests were sent on connections that had ended", broken)
	}
}

// What must not be sent twice is sent on no connection that a loop has not looked at: the app
// may have ended it since the loop last heard.
func TestLoopLooksBeforeItSendsWhatRunsOnce(t *testing.T) {
	for _, method := range []string{"POST", "GET"} {
		t.Run(method, func(t *testing.T) {
			var asked int
			told := make(chan *net.TCPConn, 1)
			n := newNode(t, "a", answering(t, &asked, 0, func(conn *net.TCPConn) { told <- conn }), func(o *proxy.Options) { o.UpstreamConns = 1 })
			c := n.looped()
			<-told
			c.right("GET")
			conn := <-told
			until(t, "no loop hears the app", func() bool { return n.DeafenLoops() > 0 })
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

// stalling is a Cluster whose Table keeps whoever asks for it waiting, once.
type stalling struct {
	*node
	armed         atomic.Bool
	began, goesOn chan struct{}
}

func (s *stalling) Table() *proxy.Table {
	if s.armed.CompareAndSwap(true, false) {
		s.began <- struct{}{}
		<-s.goesOn
	}
	return s.node.Table()
}

// A loop that was not told of all that there was does not know what of it an idle connection has
// said: it sent on one that had spoken before it waited, and what that had said was the answer.
func TestLoopThatWasNotToldOfAllLooks(t *testing.T) {
	last := make(chan net.Conn, 1)
	s := &stalling{began: make(chan struct{}), goesOn: make(chan struct{})}
	n := newNode(t, "a", rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			if _, err := readHead(r); err != nil {
				return
			}
			select { // nobody else reads those before
			case <-last:
			default:
			}
			last <- conn
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright")
		}
	}), func(o *proxy.Options) {
		s.node, _ = o.Cluster.(*node)
		o.Cluster = s
	})
	mine, other := shardmap.Of("k", shards), "other"
	for shardmap.Of(other, shards) == mine {
		other += "."
	}
	var all []*client
	for range 140 { // more than a loop is told of at once
		all = append(all, n.looped())
	}
	n.swap(1, 1, func(at shardmap.Shard) proxy.Route {
		if at == mine {
			return proxy.Route{Kind: proxy.Local, Epoch: 1}
		}
		return proxy.Route{Kind: proxy.Held, Reason: proxy.ReasonMoving}
	})
	for range 3 {
		all[0].right("GET")
	}
	rests := <-last
	s.armed.Store(true)
	all[0].send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", other)
	<-s.began
	for _, c := range all[1:] {
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	}
	_, _ = io.WriteString(rests, surplus)
	close(s.goesOn)
	for i, c := range all[1:] {
		if res, body := c.answer("GET"); res.StatusCode != 200 || body != "right" {
			t.Errorf("client %d: answer = %d %q, want the app's", i, res.StatusCode, body)
		}
	}
}

// An app that has said more than its answer, along with it, may again: loops look, too.
func TestAppThatSaysMoreThanItsAnswerIsLookedAt(t *testing.T) {
	told := make(chan net.Conn, 1)
	var asked atomic.Int32
	n := newNode(t, "a", rawApp(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			if _, err := readHead(r); err != nil {
				return
			}
			answer := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright"
			if asked.Add(1) == 2 {
				answer += surplus
			}
			_, _ = io.WriteString(conn, answer)
			told <- conn
		}
	}))
	c := n.looped()
	<-told
	var rests net.Conn
	for range 4 {
		c.right("GET")
		rests = <-told
	}
	until(t, "no loop hears the app", func() bool { return n.DeafenLoops() > 0 })
	_, _ = io.WriteString(rests, surplus)
	c.right("GET")
	<-told
}
