package proxy

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
)

// wholeBody is up to where a request's body is read whole for a handler that takes no
// streams, if --max-body says nothing else.
const wholeBody = fasthttp.DefaultMaxRequestBodySize

// errTooLong refuses a body that is longer.
var errTooLong = h1.NewError(413, "the request body exceeds 4 MiB and the app does not stream bodies (--max-body, StreamBodies)")

// readWhole reads all of a body that is not there yet, or that is longer than what is
// kept. What the request keeps meanwhile counts with the bodies that upload.gather
// waits for.
func (t *seat) readWhole() error {
	c := t.c
	most := c.set.MaxBody
	if most <= 0 {
		most = wholeBody
	}
	if err := c.req.Body.Limit(most); err != nil {
		return errTooLong
	}
	if err := c.askBody(); err != nil {
		return err
	}
	c.up.overflow = true // it is not kept with the connection, so it goes out once
	noted, err := t.readLong()
	if noted > 0 && c.s.awaited.over(&c.up.awaited) {
		err = errGivenUp
	}
	if err != nil {
		t.long = nil // its client may take its time for the answer
	}
	return err
}

// readLong reads the body into t.long, and returns how much it noted of what the
// request keeps: nothing of a short one that has come.
func (t *seat) readLong() (noted int, err error) {
	c := t.c
	t.long = append(t.long[:0], c.up.kept...)
	for body := &c.req.Body; !body.Done(); {
		if len(t.long) == cap(t.long) {
			t.long = append(t.long, 0)[:len(t.long)] // room grows with what has come
		}
		if len(t.long) >= smallBody || len(c.h.Buffered()) == 0 {
			noted = c.up.note(noted, cap(t.long), c.set.MaxBodyTotal)
		}
		n, err := body.Read(t.long[len(t.long):cap(t.long)])
		t.long = t.long[:len(t.long)+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return noted, err
		}
	}
	return noted, nil
}

// askBody has the body sent that is only sent when it is asked for.
func (c *client) askBody() error {
	if err := c.tellTaken(); err != nil {
		return err
	}
	if c.x.onDemand && !c.x.clientExpects || !c.req.Expects() || len(c.h.Buffered()) > 0 || c.req.Minor() == 0 {
		return nil
	}
	w := c.h.Writer()
	w.PutString("HTTP/1.1 100 Continue\r\n\r\n")
	return w.Flush()
}

// intake is a body that the handler reads as it comes. While it does not, the client
// is watched for its leaving. It may be read by another goroutine than the handler's,
// until close.
type intake struct {
	seat *seat

	// shut is set by close, before it takes mu.
	shut atomic.Bool
	mu   struct {
		sync.Mutex
		c    *client // nil: there is nothing to read
		kept int     // so much of what is kept has been read
	}
}

// open makes it the body of the client's request.
func (b *intake) open(c *client) {
	b.shut.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.c, b.mu.kept = c, 0
}

// Read is io.Reader's.
func (b *intake) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.mu.c
	if c == nil || b.shut.Load() {
		return 0, errOverdue
	}
	if b.mu.kept < len(c.up.kept) {
		n := copy(p, c.up.kept[b.mu.kept:])
		b.mu.kept += n
		return n, nil
	}
	if c.req.Body.Done() {
		return 0, io.EOF
	}
	c.gone.disarm()
	if !c.up.overflow {
		c.up.overflow = true // what is read here goes out once
		if err := c.askBody(); err != nil {
			c.up.rerr = err
			return 0, err
		}
	}
	n, err := c.req.Body.Read(p)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		c.gone.arm()
	case errors.Is(err, h1.ErrStopped):
		c.up.broken = true
		return n, errOverdue
	case !b.shut.Load():
		c.up.rerr = err
	}
	return n, err
}

// errOverdue is what reading a body gets after its handler has returned.
var errOverdue = errors.New("proxy: the request is over")

// close ends the body with its handler. Who still reads is woken, and the client's
// connection ends with this request.
func (b *intake) close() {
	b.shut.Store(true)
	if !b.mu.TryLock() {
		b.seat.c.up.broken = true
		b.seat.c.h.StopRead()
		b.mu.Lock()
	}
	b.mu.c = nil
	b.mu.Unlock()
}
