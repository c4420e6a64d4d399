package proxy

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"shardway/proxy/buffer"
	"shardway/proxy/h1"
)

// defaultMaxBody is the maximum size in bytes of a request body for a handler that does not accept
// streams, if --max-body is not set.
const defaultMaxBody = fasthttp.DefaultMaxRequestBodySize

// errBodyTooLong rejects a body that exceeds defaultMaxBody.
var errBodyTooLong = h1.NewError(413, "the request body exceeds 4 MiB and the app does not stream bodies (--max-body, StreamBodies)")

// readFullBody reads a complete body that has not arrived yet or exceeds the buffer. In the meantime the
// memory of the request counts towards the limit for incomplete bodies, as in requestBody.gather.
func (t *handlerConn) readFullBody() error {
	a := t.a
	most := a.settings.MaxBody
	if most <= 0 {
		most = defaultMaxBody
	}
	if err := a.req.Body.SetMaxBytes(most); err != nil {
		return errBodyTooLong
	}
	if err := t.reply.requestBody(); err != nil {
		return err
	}
	a.body.overflow = true // longBody is not in the connection's buffer, so the request cannot be sent again
	a.body.beginRead()
	noted, err := t.readRemaining()
	a.body.endRead()
	if noted > 0 && a.server.bodyMemory.Release(&a.body.memory) {
		err = errGivenUp
	}
	if err != nil {
		t.longBody = nil // release the memory, because sending the response to the client may take long
	}
	return err
}

// readRemaining reads the body into t.longBody. noted is the number of bytes that it has counted
// for the request. It is zero for a short body that has already arrived.
func (t *handlerConn) readRemaining() (noted int, err error) {
	a := t.a
	t.longBody = append(t.longBody[:0], a.body.buffered...)
	for body := &a.req.Body; !body.Done(); {
		if len(t.longBody) == cap(t.longBody) {
			t.longBody = append(t.longBody, 0)[:len(t.longBody)] // grow with the received data
		}
		if len(t.longBody) >= buffer.Small || len(a.conn.Buffered()) == 0 {
			noted = a.body.countMemory(noted, cap(t.longBody), a.settings.MaxBodyTotal)
		}
		n, err := body.Read(t.longBody[len(t.longBody):cap(t.longBody)])
		t.longBody = t.longBody[:len(t.longBody)+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return noted, err
		}
	}
	return noted, nil
}

// handlerBody is a request body that the handler reads as it arrives. While the handler does not
// read, a watch detects a disconnect of the client. Any goroutine of the app may read the body
// until close.
type handlerBody struct {
	conn *handlerConn

	// closed is set by close before it locks mu.
	closed atomic.Bool
	mu     struct {
		sync.Mutex
		a            *requestState // nil means that there is nothing to read
		bufferedRead int           // number of bytes of the buffered part that were read
	}
}

// open sets the body to that of the request a.
func (b *handlerBody) open(a *requestState) {
	b.closed.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.a, b.mu.bufferedRead = a, 0
}

// Read implements io.Reader.
func (b *handlerBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.mu.a
	if a == nil || b.closed.Load() {
		return 0, errRequestOver
	}
	gone := b.conn.p.disconnect
	if b.mu.bufferedRead < len(a.body.buffered) {
		n := copy(p, a.body.buffered[b.mu.bufferedRead:])
		b.mu.bufferedRead += n
		return n, nil
	}
	if a.req.Body.Done() {
		return 0, io.EOF
	}
	gone.disarm()
	if !a.body.overflow {
		a.body.overflow = true // the handler consumes the body, so the request cannot be sent again
		if err := b.conn.reply.requestBody(); err != nil {
			a.body.clientErr = err
			return 0, err
		}
	}
	a.body.beginRead()
	n, err := a.req.Body.Read(p)
	a.body.endRead()
	switch {
	case err == nil || errors.Is(err, io.EOF):
		gone.arm()
	case errors.Is(err, h1.ErrStopped):
		a.body.broken = true
		return n, errRequestOver
	case !b.closed.Load():
		a.body.clientErr = err
	}
	return n, err
}

// errRequestOver is returned to a reader of the body after the handler has returned.
var errRequestOver = errors.New("proxy: the request is over")

// close ends the body after its handler has returned. If another goroutine is still reading, close
// interrupts it, and the client's connection must close after this request.
func (b *handlerBody) close() {
	b.closed.Store(true)
	if !b.mu.TryLock() {
		b.conn.a.body.broken = true
		b.conn.a.conn.StopRead()
		b.mu.Lock()
	}
	b.mu.a = nil
	b.mu.Unlock()
}
