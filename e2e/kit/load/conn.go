//go:build linux

package load

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"shardway/e2e/kit/history"
)

// errUnframed reports an answer that ends with its connection: whether it is
// whole cannot be told.
var errUnframed = errors.New("load: answer without Content-Length or chunks")

// errStale reports an idle connection that has ended, or has said something unasked.
var errStale = errors.New("load: stale connection")

// conn is one connection to a target.
type conn struct {
	net.Conn
	target string
	br     *bufio.Reader
	reused bool
	// got tells whether a byte of the present answer came.
	got bool
	// unasked is how many bytes came while it was idle.
	unasked int
}

func newConn(c net.Conn, target string) *conn {
	k := &conn{Conn: c, target: target}
	k.br = bufio.NewReader(k)
	return k
}

// Read notes that something came.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.got = true
	}
	return n, err
}

// exchange sends one request and reads its answer into a. keep tells whether
// the connection may carry another.
func (c *conn) exchange(r Request, a *history.Response, deadline time.Time) (keep bool, err error) {
	c.got = false
	if err = c.SetDeadline(deadline); err != nil {
		return false, err
	}
	request := r.encode(c.target)
	if c.reused {
		var sent int
		if sent, err = c.begin(request); err != nil {
			return false, err
		}
		request = request[sent:]
	}
	if _, err = c.Write(request); err != nil && !c.answered() {
		return false, err
	}
	resp, err := c.head(r)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	a.Status = resp.StatusCode
	a.Error = resp.Header.Get("Shardway-Error")
	a.App = resp.Header.Get("App-Name")
	a.EchoID = resp.Header.Get("App-Id")
	a.Value = resp.Header.Get("App-Value")
	a.Count, _ = strconv.ParseUint(resp.Header.Get("App-Count"), 10, 64)
	var start prefix
	a.Bytes, err = io.Copy(&start, resp.Body)
	if a.Status != http.StatusOK {
		a.Detail = string(start)
	}
	if err == nil && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 {
		err = errUnframed
	}
	if err != nil {
		a.Truncated = true
		return false, err
	}
	a.Extra += c.br.Buffered()
	return !resp.Close && a.Extra == 0 && c.SetDeadline(time.Time{}) == nil, nil
}

// answered tells whether the other side answered although it did not take the
// whole request: that answer is the request's.
func (c *conn) answered() bool {
	_, err := c.br.Peek(1)
	return err == nil
}

// head reads the head of the final answer, past 1xx ones.
func (c *conn) head(r Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.br, &http.Request{Method: r.Method})
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
		_ = resp.Body.Close() // a 1xx has none
	}
}

// begin sends what the socket takes of p at once, unless the connection has ended while
// it was idle, or has said something: errStale, and nothing was sent. Look and sending are
// one step: whatever time is between the two, in it a node that stops may close what it
// has found idle for long, as HTTP/1.1 allows (RFC 9112 section 9.5).
func (c *conn) begin(p []byte) (sent int, err error) {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return 0, nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var buf [64]byte
	broken := raw.Write(func(fd uintptr) bool {
		n, _, got := syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if !errors.Is(got, syscall.EAGAIN) {
			c.unasked, err = max(n, 0), errStale
			return true
		}
		n, got = syscall.SendmsgN(int(fd), p, nil, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		if sent = max(n, 0); !errors.Is(got, syscall.EAGAIN) {
			err = got
		}
		return true
	})
	return sent, errors.Join(broken, err)
}

// prefix keeps the first bytes written to it.
type prefix []byte

// Write never fails.
func (p *prefix) Write(b []byte) (int, error) {
	const most = 300
	*p = append(*p, b[:min(len(b), most-len(*p))]...)
	return len(b), nil
}
