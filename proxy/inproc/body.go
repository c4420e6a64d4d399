package inproc

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"shardway/proxy/buffer"
	"shardway/proxy/h1"
	"shardway/proxy/reqbody"
)

// defaultMaxBody is the maximum size in bytes of a request body for a handler that does not accept
// streams, if --max-body is not set.
const defaultMaxBody = fasthttp.DefaultMaxRequestBodySize

// errBodyTooLong rejects a body that exceeds defaultMaxBody.
var errBodyTooLong = h1.NewError(413, "the request body exceeds 4 MiB and the app does not stream bodies (--max-body, StreamBodies)")

// readFullBody reads the whole of a body that has not fully arrived or exceeds the buffer. Until it returns, the
// request's memory counts toward the limit for incomplete bodies (--max-body-total).
func (conn *Conn) readFullBody() error {
	call := &conn.call
	maxBody := call.MaxBody
	if maxBody <= 0 {
		maxBody = defaultMaxBody
	}
	if err := call.Request.Body.SetMaxBytes(maxBody); err != nil {
		return errBodyTooLong
	}
	if err := conn.call.Pipeline.RequestBody(); err != nil {
		return err
	}
	call.Body.BeginRead()
	charged, err := conn.readRemaining()
	call.Body.EndRead()
	if charged > 0 && call.Body.ReleaseMemory() {
		err = reqbody.ErrMemoryLimit
	}
	if err != nil {
		conn.bodyBuf = nil // release the memory, because sending the response may take long
	}
	return err
}

// readRemaining reads the rest of the body into bodyBuf. It returns how many bytes it charged to the memory limit for
// incomplete bodies, which is zero for a small body that has already arrived.
func (conn *Conn) readRemaining() (charged int, err error) {
	call := &conn.call
	conn.bodyBuf = append(conn.bodyBuf[:0], call.Body.Buffered...)
	for body := &call.Request.Body; !body.Done(); {
		if len(conn.bodyBuf) == cap(conn.bodyBuf) {
			conn.bodyBuf = append(conn.bodyBuf, 0)[:len(conn.bodyBuf)] // grow with the received data
		}
		isLarge := len(conn.bodyBuf) >= buffer.SmallSize
		mustWaitForClient := body.Available() == 0
		if isLarge || mustWaitForClient {
			charged = call.Body.CountMemory(charged, cap(conn.bodyBuf), call.MaxBodyTotal)
		}
		isBuffered, err := call.Body.ReadToBuffer()
		if isBuffered {
			conn.bodyBuf = append(conn.bodyBuf, call.Body.Buffered[len(conn.bodyBuf):]...)
		} else {
			var n int
			n, err = body.Read(conn.bodyBuf[len(conn.bodyBuf):cap(conn.bodyBuf)])
			conn.bodyBuf = conn.bodyBuf[:len(conn.bodyBuf)+n]
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return charged, err
		}
	}
	return charged, nil
}

// requestBody is a request body that the handler reads as it arrives. While the handler does not
// read, a watch detects a disconnect of the client. Any goroutine of the app may read the body
// until close.
type requestBody struct {
	conn *Conn

	// closed is set by close before it locks mu.
	closed atomic.Bool
	mu     struct {
		sync.Mutex
		call         *Call // nil means that there is nothing to read
		bufferedRead int   // number of buffered bytes that were read
		sentContinue bool  // a client that waits for 100 Continue has been sent one
	}
}

// open sets the body to that of call.
func (b *requestBody) open(call *Call) {
	b.closed.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.call, b.mu.bufferedRead, b.mu.sentContinue = call, 0, false
}

// Read implements io.Reader. It returns the buffered part of the body, and then reads from the client.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	call := b.mu.call
	if call == nil || b.closed.Load() {
		return 0, errRequestOver
	}
	if n := b.readBufferedLocked(call, p); n > 0 {
		return n, nil
	}
	if call.Request.Body.Done() {
		return 0, io.EOF
	}
	return b.readFromClientLocked(call, p)
}

// readBufferedLocked reads buffered bytes of the body. It returns 0 if there are none. The caller must hold mu.
func (b *requestBody) readBufferedLocked(call *Call, p []byte) int {
	n := copy(p, call.Body.Buffered[b.mu.bufferedRead:])
	b.mu.bufferedRead += n
	return n
}

// readFromClientLocked reads a part of the body from the client's connection. The first call sends a 100 Continue if
// the client waits for one. The caller must hold mu.
func (b *requestBody) readFromClientLocked(call *Call, p []byte) (int, error) {
	disconnect := call.Disconnect
	disconnect.Disarm()
	if !b.mu.sentContinue {
		b.mu.sentContinue = true
		if err := b.conn.call.Pipeline.RequestBody(); err != nil {
			call.Body.ClientErr = err
			return 0, err
		}
	}
	call.Body.BeginRead()
	n, err := b.readNextLocked(call, p)
	call.Body.EndRead()
	switch {
	case err == nil || errors.Is(err, io.EOF):
		disconnect.Arm()
	case errors.Is(err, h1.ErrStopped):
		call.Body.Unreadable = true
		return n, errRequestOver
	case !b.closed.Load():
		call.Body.ClientErr = err
	}
	return n, err
}

// readNextLocked reads the next part of the body from the client's connection. While the buffer has space, the part
// is also stored there, so that the request can be sent again. The caller must hold mu.
func (b *requestBody) readNextLocked(call *Call, p []byte) (int, error) {
	isBuffered, err := call.Body.ReadToBuffer()
	if !isBuffered {
		return call.Request.Body.Read(p)
	}
	n := b.readBufferedLocked(call, p)
	if errors.Is(err, io.EOF) && b.mu.bufferedRead < len(call.Body.Buffered) {
		err = nil
	}
	return n, err
}

// errRequestOver is returned to a reader of the body after the handler has returned.
var errRequestOver = errors.New("proxy: the request is over")

// close ends the body after its handler has returned. If another goroutine is still reading, close
// interrupts it, and the client's connection must close after this request.
func (b *requestBody) close() {
	b.closed.Store(true)
	if !b.mu.TryLock() {
		b.conn.call.Body.Unreadable = true
		b.conn.call.Client.StopRead()
		b.mu.Lock()
	}
	b.mu.call = nil
	b.mu.Unlock()
}
