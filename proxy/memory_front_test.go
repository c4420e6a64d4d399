package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/inbound"
)

var _ inbound.Request = (*memoryFront)(nil)

// memoryFront is a front without sockets, whose client exchanges values instead of HTTP/1 messages.
// It stands for the fronts of other protocols: each request has its own memoryFront, and the bodies
// of responses have no framing. It is not an inbound.Upgrader.
type memoryFront struct {
	conn   *h1.Conn // reads and writes stream
	stream *memoryStream
	head   string // header of the request as HTTP/1 text

	watch struct {
		sync.Mutex
		gone        func() // set by WatchDisconnect; nil means that there is no watch
		isCancelled bool   // the client has cancelled the request
	}
}

// frame is a part of a response. Exactly one field is set.
type frame struct {
	header string // status and lines of a header
	data   []byte // bytes of the body
	end    bool   // the response is complete
	reset  bool   // the response was aborted
}

// memoryStream is the transport of one request. Its Read returns the header and then the body of the
// request. Its Write makes frames.
type memoryStream struct {
	net.Conn // reads the body of the request, with deadlines
	unread   []byte
	frames   chan frame
	closed   chan struct{}
	onClose  sync.Once

	// headers contains the positions of headers in the written bytes. Only the goroutine of the
	// request uses it and written.
	headers []headerPosition
	written int64
}

// headerPosition is the position of a header in the bytes that a front writes.
type headerPosition struct{ start, end int64 }

func (s *memoryStream) Read(p []byte) (int, error) {
	if len(s.unread) > 0 {
		n := copy(p, s.unread)
		s.unread = s.unread[n:]
		return n, nil
	}
	return s.Conn.Read(p)
}

func (s *memoryStream) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		part, isHeader := p[done:], false
		if len(s.headers) > 0 {
			next := s.headers[0]
			isHeader = next.start == s.written
			length := next.start - s.written
			if isHeader {
				length = next.end - next.start
				s.headers = s.headers[1:]
			}
			part = part[:min(int64(len(part)), length)]
		}
		sent := frame{data: bytes.Clone(part)}
		if isHeader {
			sent = frame{header: string(part)}
		}
		if err := s.send(sent); err != nil {
			return done, err
		}
		done += len(part)
		s.written += int64(len(part))
	}
	return len(p), nil
}

func (s *memoryStream) SetWriteDeadline(time.Time) error { return nil }

func (s *memoryStream) Close() error {
	s.onClose.Do(func() {
		close(s.closed)
		_ = s.Conn.Close()
	})
	return nil
}

// send gives a frame to the client. It fails after Close.
func (s *memoryStream) send(f frame) error {
	select {
	case <-s.closed:
		return net.ErrClosed
	default:
	}
	select {
	case s.frames <- f:
		return nil
	case <-s.closed:
		return net.ErrClosed
	}
}

func (f *memoryFront) ReadRequest(req *h1.Request) error {
	f.stream.unread = []byte(f.head)
	return f.conn.ReadRequest(req)
}

func (f *memoryFront) StopRead() { f.conn.StopRead() }

func (f *memoryFront) Abort() error { return f.conn.Abort() }

func (f *memoryFront) WatchDisconnect(gone func()) {
	f.watch.Lock()
	defer f.watch.Unlock()
	if f.watch.isCancelled {
		go gone()
		return
	}
	f.watch.gone = gone
}

func (f *memoryFront) StopWatch() bool {
	f.watch.Lock()
	defer f.watch.Unlock()
	f.watch.gone = nil
	return f.watch.isCancelled
}

// putHeader writes a header into the buffer of the Writer.
func (f *memoryFront) putHeader(status int, lines string) *h1.Writer {
	header := strconv.Itoa(status) + "\r\n" + lines + "\r\n"
	writer := f.conn.Writer()
	start := f.conn.Sent() + int64(writer.Pending())
	for len(f.stream.headers) > 0 && f.stream.headers[len(f.stream.headers)-1].start >= start { // it was discarded
		f.stream.headers = f.stream.headers[:len(f.stream.headers)-1]
	}
	f.stream.headers = append(f.stream.headers, headerPosition{start, start + int64(len(header))})
	writer.PutString(header)
	return writer
}

func (f *memoryFront) WriteResponseHeader(res *h1.Response, edit *h1.Edit) *h1.Writer {
	var lines strings.Builder
	for i := range res.NumFields() {
		field := res.KnownField(i)
		isDropped := (edit.Drop | h1.HopByHop | h1.FieldSetOf(h1.FieldTransferEncoding)).Has(field)
		if isDropped || res.IsConnectionOption(i) {
			continue
		}
		name, value := res.Field(i)
		for _, replacement := range edit.Replace {
			if replacement.Line == i {
				value = replacement.Value
			}
		}
		_, _ = fmt.Fprintf(&lines, "%s: %s\r\n", name, value)
	}
	lines.Write(edit.Extra)
	writer := f.putHeader(res.Status(), lines.String())
	switch res.Body.Kind() {
	case h1.NoBody:
		writer.BeginBody(h1.NoBody, 0)
	case h1.Length:
		writer.BeginBody(h1.Length, res.ContentLength())
	case h1.Chunked, h1.UntilClose:
		writer.BeginBody(h1.UntilClose, 0)
	}
	return writer
}

func (f *memoryFront) WriteLocal(status int, lines, body []byte, _ bool) error {
	writer := f.putHeader(status, string(lines))
	writer.Put(body)
	return writer.Flush()
}

func (f *memoryFront) Writer() *h1.Writer { return f.conn.Writer() }

func (f *memoryFront) Received() int64 { return f.conn.Received() }

func (f *memoryFront) Sent() int64 { return f.conn.Sent() }

func (f *memoryFront) BufferSize() int { return f.conn.BufferSize() }

func (f *memoryFront) ReleaseEmptyBuffers() { f.conn.ReleaseEmptyBuffers() }

func (f *memoryFront) Addrs() (local, remote net.Addr) {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 5000}
}

func (f *memoryFront) LocalAddr() net.Addr { local, _ := f.Addrs(); return local }

func (f *memoryFront) RemoteAddr() net.Addr { _, remote := f.Addrs(); return remote }

// memoryClient is the client of one request of a memoryFront.
type memoryClient struct {
	t     *testing.T
	front *memoryFront
	body  net.Conn      // writes the body of the request
	done  chan struct{} // closed when the pipeline has returned
}

// memoryRequest sends the header of a request with the key k. size is the length of its body, or -1 if
// it is unknown.
func (n *node) memoryRequest(method, target string, size int, lines ...string) *memoryClient {
	n.t.Helper()
	near, far := net.Pipe()
	stream := &memoryStream{Conn: far, frames: make(chan frame, 8), closed: make(chan struct{})}
	front := &memoryFront{stream: stream}
	front.conn = h1.NewConn(stream, h1.Options{Buffers: &h1.Buffers{BytesInUse: &n.lent}, Timeouts: h1.Timeouts{Body: 20 * time.Second}})
	lines = append(lines, "Host: h", "X-Shard-Key: k")
	switch {
	case size < 0:
		lines = append(lines, "Transfer-Encoding: chunked")
	case size > 0:
		lines = append(lines, "Content-Length: "+strconv.Itoa(size))
	}
	front.head = method + " " + target + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	c := &memoryClient{t: n.t, front: front, body: near, done: make(chan struct{})}
	go c.serve(n)
	n.t.Cleanup(func() {
		c.cancel()
		<-c.done
	})
	return c
}

// serve runs the request. It is the goroutine of the front.
func (c *memoryClient) serve(n *node) {
	defer close(c.done)
	stream := c.front.stream
	complete := n.ServeInbound(context.Background(), c.front, c.front)
	if complete && stream.send(frame{end: true}) == nil {
		_ = stream.Conn.Close() // the rest of the body is not read
	} else {
		_ = c.front.Abort()
	}
	c.front.conn.ReleaseBuffers()
}

// cancel cancels the request, like RST_STREAM of HTTP/2. A request that has ended is not affected.
func (c *memoryClient) cancel() {
	watch := &c.front.watch
	watch.Lock()
	gone := watch.gone
	watch.isCancelled, watch.gone = true, nil
	if gone != nil {
		gone()
	}
	watch.Unlock()
	_ = c.body.Close()
	_ = c.front.stream.Close()
}

// send sends a part of a body with a known length.
func (c *memoryClient) send(part string) {
	c.t.Helper()
	_ = c.body.SetWriteDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c.body, part); err != nil {
		c.t.Fatalf("body: %v", err)
	}
}

// sendChunk sends a part of a body with an unknown length. An empty part is the end of the body.
func (c *memoryClient) sendChunk(part string) {
	c.t.Helper()
	c.send(fmt.Sprintf("%x\r\n%s\r\n", len(part), part))
}

// next returns the next frame of the response.
func (c *memoryClient) next() frame {
	c.t.Helper()
	stream := c.front.stream
	select {
	case f := <-stream.frames:
		return f
	default:
	}
	select {
	case f := <-stream.frames:
		return f
	case <-stream.closed:
		return frame{reset: true}
	case <-time.After(20 * time.Second):
		c.t.Fatal("no frame of the response")
		return frame{}
	}
}

// header returns the next frame, which must be a header.
func (c *memoryClient) header() *reply {
	c.t.Helper()
	f := c.next()
	status, lines, found := strings.Cut(f.header, "\r\n")
	if !found {
		c.t.Fatalf("not a header: %+v", f)
	}
	code, _ := strconv.Atoi(status)
	r := &reply{StatusCode: code, Status: status, Header: make(http.Header)}
	for line := range strings.SplitSeq(strings.TrimRight(lines, "\r\n"), "\r\n") {
		if name, value, hasValue := strings.Cut(line, ": "); hasValue {
			r.Header.Add(textproto.CanonicalMIMEHeaderKey(name), value)
		}
	}
	return r
}

// data returns the next n bytes of the body.
func (c *memoryClient) data(n int) string {
	c.t.Helper()
	var read []byte
	for len(read) < n {
		f := c.next()
		if f.data == nil {
			c.t.Fatalf("not data: %+v after %q", f, read)
		}
		read = append(read, f.data...)
	}
	return string(read)
}

// rest returns the rest of the body. The error is not nil if the response was aborted.
func (c *memoryClient) rest() (string, error) {
	c.t.Helper()
	var read []byte
	for {
		switch f := c.next(); {
		case f.end:
			return string(read), nil
		case f.reset:
			return string(read), errors.New("reset")
		case f.data == nil:
			c.t.Fatalf("not data: %+v after %q", f, read)
		default:
			read = append(read, f.data...)
		}
	}
}

// answer returns a complete response.
func (c *memoryClient) answer() (*reply, string) {
	c.t.Helper()
	res := c.header()
	body, err := c.rest()
	if err != nil {
		c.t.Fatalf("%d: %v after %q", res.StatusCode, err, body)
	}
	return res, body
}
