package proxy

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

// readFullBody reads a complete body that has not arrived yet or exceeds the buffer. In the meantime
// the memory of the request counts towards the limit for incomplete bodies (--max-body-total).
func (hc *handlerConn) readFullBody() error {
	state := hc.state
	maxBody := state.settings.MaxBody
	if maxBody <= 0 {
		maxBody = defaultMaxBody
	}
	if err := state.req.Body.SetMaxBytes(maxBody); err != nil {
		return errBodyTooLong
	}
	if err := hc.reply.requestBody(); err != nil {
		return err
	}
	state.body.ExceedsBuffer = true // largeBody is not in the connection's buffer, so the request cannot be retried
	state.body.BeginRead()
	counted, err := hc.readRemaining()
	state.body.EndRead()
	if counted > 0 && state.body.ReleaseMemory() {
		err = reqbody.ErrMemoryLimit
	}
	if err != nil {
		hc.largeBody = nil // release the memory, because sending the response to the client may take long
	}
	return err
}

// readRemaining reads the body into largeBody. counted is the number of bytes that it has counted
// for the request. It is zero for a short body that has already arrived.
func (hc *handlerConn) readRemaining() (counted int, err error) {
	state := hc.state
	hc.largeBody = append(hc.largeBody[:0], state.body.Buffered...)
	for body := &state.req.Body; !body.Done(); {
		if len(hc.largeBody) == cap(hc.largeBody) {
			hc.largeBody = append(hc.largeBody, 0)[:len(hc.largeBody)] // grow with the received data
		}
		isLarge := len(hc.largeBody) >= buffer.SmallSize
		mustWaitForClient := body.Available() == 0
		if isLarge || mustWaitForClient {
			counted = state.body.CountMemory(counted, cap(hc.largeBody), state.settings.MaxBodyTotal)
		}
		n, err := body.Read(hc.largeBody[len(hc.largeBody):cap(hc.largeBody)])
		hc.largeBody = hc.largeBody[:len(hc.largeBody)+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return counted, err
		}
	}
	return counted, nil
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
		state        *requestState // nil means that there is nothing to read
		bufferedRead int           // number of bytes of the buffered part that were read
	}
}

// open sets the body to that of the request whose state is given.
func (b *handlerBody) open(state *requestState) {
	b.closed.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.state, b.mu.bufferedRead = state, 0
}

// Read implements io.Reader. It returns the buffered part of the body, and then reads from the client.
func (b *handlerBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.mu.state
	if state == nil || b.closed.Load() {
		return 0, errRequestOver
	}
	if b.mu.bufferedRead < len(state.body.Buffered) {
		n := copy(p, state.body.Buffered[b.mu.bufferedRead:])
		b.mu.bufferedRead += n
		return n, nil
	}
	if state.req.Body.Done() {
		return 0, io.EOF
	}
	return b.readFromClientLocked(state, p)
}

// readFromClientLocked reads a part of the body from the client's connection. The first call asks the
// client for the body, if the client waits for that. The caller must hold mu.
func (b *handlerBody) readFromClientLocked(state *requestState, p []byte) (int, error) {
	disconnect := b.conn.active.disconnect
	disconnect.Disarm()
	isFirstRead := !state.body.ExceedsBuffer
	if isFirstRead {
		state.body.ExceedsBuffer = true // the handler consumes the body, so the request cannot be retried
		if err := b.conn.reply.requestBody(); err != nil {
			state.body.ClientErr = err
			return 0, err
		}
	}
	state.body.BeginRead()
	n, err := state.req.Body.Read(p)
	state.body.EndRead()
	switch {
	case err == nil || errors.Is(err, io.EOF):
		disconnect.Arm()
	case errors.Is(err, h1.ErrStopped):
		state.body.Unreadable = true
		return n, errRequestOver
	case !b.closed.Load():
		state.body.ClientErr = err
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
		b.conn.state.body.Unreadable = true
		b.conn.state.inbound.StopRead()
		b.mu.Lock()
	}
	b.mu.state = nil
	b.mu.Unlock()
}
