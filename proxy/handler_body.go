package proxy

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
)

// defaultMaxBody is the largest request body, in bytes, for a handler that does not accept streams.
// It applies if --max-body is not set.
const defaultMaxBody = fasthttp.DefaultMaxRequestBodySize

// errBodyTooLong rejects a longer body.
var errBodyTooLong = h1.NewError(413, "the request body exceeds 4 MiB and the app does not stream bodies (--max-body, StreamBodies)")

// readFullBody reads the complete body, which has not arrived yet or exceeds the buffer. The memory
// of the request counts meanwhile as that of an incomplete body, as in requestBody.gather.
func (t *handlerConn) readFullBody() error {
	a := t.a
	most := a.set.MaxBody
	if most <= 0 {
		most = defaultMaxBody
	}
	if err := a.req.Body.Limit(most); err != nil {
		return errBodyTooLong
	}
	if err := t.reply.requestBody(); err != nil {
		return err
	}
	a.body.overflow = true // the body is not in the buffer of the connection, so it can be sent once only
	a.body.beginRead()
	noted, err := t.readRemaining()
	a.body.endRead()
	if noted > 0 && a.s.awaited.over(&a.body.awaited) {
		err = errGivenUp
	}
	if err != nil {
		t.longBody = nil // its client may take its time for the answer
	}
	return err
}

// readRemaining reads the body into t.longBody. It returns how many bytes of memory it has counted
// for the request: zero for a short body that has arrived.
func (t *handlerConn) readRemaining() (noted int, err error) {
	a := t.a
	t.longBody = append(t.longBody[:0], a.body.buffered...)
	for body := &a.req.Body; !body.Done(); {
		if len(t.longBody) == cap(t.longBody) {
			t.longBody = append(t.longBody, 0)[:len(t.longBody)] // room grows with what has come
		}
		if len(t.longBody) >= smallBody || len(a.conn.Buffered()) == 0 {
			noted = a.body.note(noted, cap(t.longBody), a.set.MaxBodyTotal)
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
// read, the client is watched for a disconnect. Another goroutine than that of the handler may read
// the body, until close.
type handlerBody struct {
	conn *handlerConn

	// closed is set by close before it locks mu.
	closed atomic.Bool
	mu     struct {
		sync.Mutex
		a            *requestState // nil means that there is nothing to read
		bufferedRead int           // bytes of the buffered part that were read
	}
}

// open sets the body to that of the request of its connection.
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
		a.body.overflow = true // what is read here goes out once
		if err := b.conn.reply.requestBody(); err != nil {
			a.body.rerr = err
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
		a.body.rerr = err
	}
	return n, err
}

// errRequestOver is returned to a reader of the body after the handler has returned.
var errRequestOver = errors.New("proxy: the request is over")

// close ends the body when its handler has returned. It interrupts a goroutine that still reads;
// then the connection of the client ends with this request.
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
