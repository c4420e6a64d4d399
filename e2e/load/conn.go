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

	"shardway/e2e/history"
)

// errUnframed reports an answer that ends with its connection: whether it is
// whole cannot be told.
var errUnframed = errors.New("load: answer without Content-Length or chunks")

// conn is one connection to a target.
type conn struct {
	net.Conn
	target string
	br     *bufio.Reader
	reused bool
	// got tells whether a byte of the present answer came.
	got bool
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
func (c *conn) exchange(r Request, a *history.Answer, deadline time.Time) (keep bool, err error) {
	c.got = false
	if err = c.SetDeadline(deadline); err != nil {
		return false, err
	}
	if _, err = c.Write(r.encode(c.target)); err != nil && !c.answered() {
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
		a.Cut = true
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

// look tells whether an idle connection is still open, and how many bytes came
// on it that nobody had asked for.
func (c *conn) look() (open bool, extra int) {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return true, 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false, 0
	}
	var buf [64]byte
	err = raw.Read(func(fd uintptr) bool {
		n, _, got := syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		open = errors.Is(got, syscall.EAGAIN)
		extra = max(n, 0)
		return true
	})
	return open && err == nil, extra
}

// prefix keeps the first bytes written to it.
type prefix []byte

// Write never fails.
func (p *prefix) Write(b []byte) (int, error) {
	const most = 300
	*p = append(*p, b[:min(len(b), most-len(*p))]...)
	return len(b), nil
}
