package proxy

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
)

// defaultMaxBody is up to where a request's body is read whole for a handler that takes no
// streams, if --max-body says nothing else.
const defaultMaxBody = fasthttp.DefaultMaxRequestBodySize

// errBodyTooLong refuses a body that is longer.
var errBodyTooLong = h1.NewError(413, "the request body exceeds 4 MiB and the app does not stream bodies (--max-body, StreamBodies)")

// readFullBody reads all of a body that is not there yet, or that is longer than what is
// kept. What the request keeps meanwhile counts with the bodies that upload.gather
// waits for.
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
	a.body.overflow = true // it is not kept with the connection, so it goes out once
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

// readRemaining reads the body into t.long, and returns how much it noted of what the
// request keeps: nothing of a short one that has come.
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

// intake is a body that the handler reads as it comes. While it does not, the client
// is watched for its leaving. It may be read by another goroutine than the handler's,
// until close.
type handlerBody struct {
	conn *handlerConn

	// shut is set by close, before it takes mu.
	closed atomic.Bool
	mu     struct {
		sync.Mutex
		a            *requestState // nil: there is nothing to read
		bufferedRead int           // so much of what is kept has been read
	}
}

// open makes it the body of the request on its seat.
func (b *handlerBody) open(a *requestState) {
	b.closed.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.a, b.mu.bufferedRead = a, 0
}

// Read is io.Reader's.
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

// errRequestOver is what reading a body gets after its handler has returned.
var errRequestOver = errors.New("proxy: the request is over")

// close ends the body with its handler. Who still reads is woken, and the client's
// connection ends with this request.
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
