package proxy

import (
	"errors"
	"io"
	"os"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
)

// upload is a body on its way out while the answer may come in. A goroutine runs
// it; the fields are the connection's own but for what the goroutine leaves
// behind before it sends on done.
type upload struct {
	running  bool
	broken   bool  // the client's body cannot be read any further
	rerr     error // what was wrong with it
	overflow bool  // more went out than is kept
	done     chan struct{}
}

// takeBuffered moves what has come in of a body that can be kept into c.body,
// without waiting for more. What is not kept stays where it is until it is sent.
func (c *client) takeBuffered() error {
	body := &c.req.Body
	left := body.Remaining()
	if left <= 0 || left > int64(c.s.o.BodyBuffer) || c.up.overflow {
		return nil
	}
	n := min(int(left), len(c.h.Buffered()))
	if n == 0 {
		return nil
	}
	c.makeRoom(len(c.body) + n)
	have := len(c.body)
	got, _, err := body.Fill(c.body[have : have+n])
	c.body = c.body[:have+got]
	return err
}

// gather waits for all of a body that can be kept, so that a connection to the app
// is taken for no longer than the app needs: whoever sends slowly holds up nobody
// but himself. It does not wait for a body that the client sends only when asked
// to, nor for one that another node does.
func (c *client) gather() error {
	body := &c.req.Body
	left := body.Remaining()
	if left <= 0 || left > int64(c.s.o.BodyBuffer) || c.up.overflow || c.x.onDemand || c.req.Expects() {
		return nil
	}
	if err := c.takeBuffered(); err != nil || body.Done() {
		return err
	}
	err := c.awaitBody()
	if c.s.awaited.over(&c.awaited) {
		return errGivenUp
	}
	return err
}

// awaitBody reads the rest of a body into c.body. What the request keeps meanwhile
// counts, and grows with what has come: who says 64 KiB and sends a byte is not given
// 64 KiB.
func (c *client) awaitBody() error {
	body := &c.req.Body
	for noted := 0; !body.Done(); {
		if len(c.body) == cap(c.body) {
			c.makeRoom(len(c.body) + 1)
		}
		noted = c.keepBody(noted)
		have := len(c.body)
		n, err := body.Read(c.body[have:min(cap(c.body), have+int(body.Remaining()))])
		c.body = c.body[:have+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// makeRoom gives c.body room for n bytes, at most BodyBuffer.
func (c *client) makeRoom(n int) {
	if cap(c.body) >= n {
		return
	}
	old := c.body
	c.body = append(c.s.bodies.get(n), old...)
	if cap(old) > 0 {
		c.s.bodies.put(old)
	}
}

// freeBody forgets what was kept.
func (c *client) freeBody() {
	if cap(c.body) > smallBody {
		c.s.bodies.put(c.body)
		c.body = nil
	}
	c.body = c.body[:0]
}

// bodyWhole reports whether all of the body is kept, if there is one.
func (c *client) bodyWhole() bool { return c.req.Body.Done() && !c.up.overflow }

// canReplay reports whether the body can be sent again from its start.
func (c *client) canReplay() bool { return !c.up.overflow && !c.up.broken }

// startUpload sends the rest of the body from a goroutine, after the first kept
// bytes of what is there already. The goroutine ends with the body, with the link
// (closed by who ends the trip) or by stopUpload.
func (c *client) startUpload(w *h1.Writer, kept int) {
	if c.up.done == nil {
		c.up.done = make(chan struct{}, 1)
	}
	c.up.running = true
	c.uploading.Store(true)
	c.ending.Store(false)
	go func() {
		rerr := c.pumpSafely(func() error { return c.pump(w, kept) })
		c.uploading.Store(false)
		if rerr == nil {
			c.gone.arm() // nobody reads any more
		} else if !errors.Is(rerr, h1.ErrStopped) {
			// A request that was cut must not look whole to the app.
			// The client's connection stays: an answer may be on its way by it, the
			// owner's 413 for one, and relay tells whether that came to its end.
			closes, _ := c.slot.cut(causeGone, func(run, string) bool { return true }, nil)
			closeAll(closes[:min(len(closes), 1)])
		}
		c.up.rerr = rerr
		c.up.done <- struct{}{}
	}()
}

// pump copies the body, and keeps it as long as BodyBuffer allows. It returns
// what was wrong with the client's side; what is wrong with the link shows where
// the answer is read.
func (c *client) pump(w *h1.Writer, kept int) error {
	body := &c.req.Body
	if _, err := w.Write(c.body[:kept]); err != nil {
		return nil //nolint:nilerr // see above
	}
	if left := body.Remaining(); left > int64(c.s.o.BodyBuffer-len(c.body)) {
		c.up.overflow = true
	}
	for !c.up.overflow && !body.Done() {
		have := len(c.body)
		if have == c.s.o.BodyBuffer {
			c.up.overflow = true
			break
		}
		c.makeRoom(have + 1)
		n, err := body.Read(c.body[have:cap(c.body)])
		c.body = c.body[:have+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := w.Write(c.body[have:]); err != nil {
			return nil //nolint:nilerr // see above
		}
		if body.Done() || body.Kind() == h1.Length && len(c.h.Buffered()) > 0 {
			continue // more goes out with it
		}
		if err := w.Flush(); err != nil {
			return nil //nolint:nilerr // see above
		}
	}
	if _, rerr, werr := w.Copy(body); rerr != nil || werr != nil {
		return rerr
	}
	// Until here the last bytes are in the buffer: nobody has seen the end before
	// this is known.
	c.ending.Store(true)
	_ = w.Close(body.Trailers()) // see above
	return nil
}

// stopUpload ends an upload and waits for its goroutine. If it had not come to
// its end by itself, the client's connection can be read no more.
func (c *client) stopUpload() {
	if !c.up.running {
		return
	}
	select {
	case <-c.up.done:
	default:
		c.up.broken = true
		c.h.StopRead()
		<-c.up.done
	}
	c.endUpload()
}

// lateUpload is for how long the last bytes of an upload may be on their way to
// the socket though the answer is there: no longer than a socket takes that is read.
const lateUpload = 50 * time.Millisecond

// awaitUpload reports whether the upload came to its end. It waits only for one
// whose last bytes are going out: an app that has read everything answers before
// the goroutine here has looked up. Any other outlasts its answer.
func (c *client) awaitUpload() bool {
	if !c.up.running {
		return true
	}
	if !c.ending.Load() {
		return false
	}
	timer := time.NewTimer(lateUpload)
	defer timer.Stop()
	select {
	case <-c.up.done:
		c.endUpload()
		return true
	case <-timer.C:
		return false
	}
}

func (c *client) endUpload() {
	c.up.running = false
	if errors.Is(c.up.rerr, h1.ErrStopped) {
		c.up.rerr = nil
	}
	c.up.broken = c.up.broken || c.up.rerr != nil
}

// badBody ends a request whose body the client broke off or framed badly.
func (c *client) badBody(err error) verdict {
	c.up.broken = true
	var bad *h1.Error
	switch {
	case errors.As(err, &bad):
		c.answerBad(bad)
	case errors.Is(err, errGivenUp):
		c.x.keep = false // it is read no more
		c.answer(&problem.Problem{Code: problem.RequestTimeout, Detail: "the body of the request came too slowly beside too many others (--max-body-total)"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.answer(&problem.Problem{Code: problem.RequestTimeout, Detail: "the body of the request stopped coming, or came too slowly (--idle-timeout, --min-body-rate)"})
	default:
		c.s.metrics.clientsGone.Add(1)
		c.x.cut = true
	}
	return done
}
