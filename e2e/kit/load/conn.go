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

// errUnframed reports a response that ends with its connection, so that a truncation
// cannot be detected.
var errUnframed = errors.New("load: response without Content-Length or chunks")

// errStale reports an idle connection that has ended, or on which bytes arrived.
var errStale = errors.New("load: stale connection")

// clientConn is a connection to a target.
type clientConn struct {
	net.Conn
	target string
	reader *bufio.Reader // reads from the connection
	// isReused reports whether the connection has carried a request before.
	isReused bool
	// hasReceived reports whether a byte of the current response has arrived.
	hasReceived bool
	// unsolicited is the number of bytes that arrived while the connection was idle.
	unsolicited int
}

func newConn(netConn net.Conn, target string) *clientConn {
	conn := &clientConn{Conn: netConn, target: target}
	conn.reader = bufio.NewReader(conn)
	return conn
}

// Read reads from the connection and records that bytes have arrived.
func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.hasReceived = true
	}
	return n, err
}

// exchange sends one request and reads its response into resp. reusable reports whether the
// connection may carry another request. The error is errStale if an idle connection has ended, so
// that nothing was sent.
func (c *clientConn) exchange(req Request, resp *history.Response, deadline time.Time) (reusable bool, err error) {
	c.hasReceived = false
	if err = c.SetDeadline(deadline); err != nil {
		return false, err
	}
	if err = c.sendRequest(req.encode(c.target)); err != nil {
		return false, err
	}
	httpResp, err := c.readResponse(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = httpResp.Body.Close() }()
	recordHeaders(httpResp, resp)
	if err = recordBody(httpResp, resp); err != nil {
		resp.Truncated = true
		return false, err
	}
	resp.Extra += c.reader.Buffered()
	return !httpResp.Close && resp.Extra == 0 && c.SetDeadline(time.Time{}) == nil, nil
}

// sendRequest sends an encoded request. It returns no error if the target has responded without reading
// the whole request.
func (c *clientConn) sendRequest(request []byte) error {
	if c.isReused {
		sent, err := c.writeIfOpen(request)
		if err != nil {
			return err
		}
		request = request[sent:]
	}
	if _, err := c.Write(request); err != nil && !c.hasResponse() {
		return err
	}
	return nil
}

// recordHeaders copies the status and the headers of a response into resp.
func recordHeaders(httpResp *http.Response, resp *history.Response) {
	resp.Status = httpResp.StatusCode
	resp.Error = httpResp.Header.Get("Shardway-Error")
	resp.App = httpResp.Header.Get("App-Name")
	resp.EchoID = httpResp.Header.Get("App-Id")
	resp.Value = httpResp.Header.Get("App-Value")
	resp.Count, _ = strconv.ParseUint(httpResp.Header.Get("App-Count"), 10, 64)
}

// recordBody reads the body of a response, and records its length. It returns an error if the body is
// truncated, or if a truncation cannot be detected.
func recordBody(httpResp *http.Response, resp *history.Response) (err error) {
	var start prefixBuffer
	resp.Bytes, err = io.Copy(&start, httpResp.Body)
	if resp.Status != http.StatusOK {
		resp.Detail = string(start)
	}
	isFramed := httpResp.ContentLength >= 0 || len(httpResp.TransferEncoding) > 0
	if err == nil && !isFramed {
		return errUnframed
	}
	return err
}

// hasResponse reports whether the peer sent a response although it did not read the whole
// request. That response belongs to the request.
func (c *clientConn) hasResponse() bool {
	_, err := c.reader.Peek(1)
	return err == nil
}

// readResponse reads the headers of the final response, after 1xx responses.
func (c *clientConn) readResponse(req Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.reader, &http.Request{Method: req.Method})
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
		_ = resp.Body.Close() // a 1xx response has no body
	}
}

// writeIfOpen writes as much of p as the socket buffer takes. It returns errStale, and
// writes nothing, if the connection has ended while it was idle, or if bytes have
// arrived. The check and the write are one step: in between, a node that stops could
// close a connection that was idle for long, as HTTP/1.1 permits (RFC 9112 section 9.5).
func (c *clientConn) writeIfOpen(p []byte) (sent int, err error) {
	sysConn, ok := c.Conn.(syscall.Conn)
	if !ok {
		return 0, nil
	}
	raw, err := sysConn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var buf [64]byte
	controlErr := raw.Write(func(fd uintptr) bool {
		n, _, recvErr := syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if !errors.Is(recvErr, syscall.EAGAIN) {
			c.unsolicited, err = max(n, 0), errStale
			return true
		}
		n, sendErr := syscall.SendmsgN(int(fd), p, nil, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		sent = max(n, 0)
		if !errors.Is(sendErr, syscall.EAGAIN) {
			err = sendErr
		}
		return true
	})
	return sent, errors.Join(controlErr, err)
}

// prefixBuffer keeps the first bytes written to it.
type prefixBuffer []byte

// Write never fails.
func (p *prefixBuffer) Write(data []byte) (int, error) {
	const limit = 300
	*p = append(*p, data[:min(len(data), limit-len(*p))]...)
	return len(data), nil
}
