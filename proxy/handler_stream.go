package proxy

import (
	"errors"
	"io"
	"math"
	"net"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
)

// errStreamCancelled replaces the result of a stream whose run was cancelled.
var errStreamCancelled = errors.New("proxy: the answer's stream was cut")

// relayStream copies a response stream of the handler to the client as it arrives. The request
// counts as in flight until the stream is closed and every Task has ended.
func (t *handlerConn) relayStream(ctx *fasthttp.RequestCtx, w *h1.Writer, stream io.Reader) {
	t.setStream(streamCloser(stream))
	var err error
	if w.Kind() != h1.NoBody {
		err = t.copyStream(w, stream)
	}
	if err != nil {
		w.Abort()
		t.discardResponse(ctx)
		t.reply.breakOff(t.p, err)
		return
	}
	t.closeStream(ctx)
	t.tasks.Wait()
	var trailers []byte
	if w.Kind() == h1.Chunked {
		trailers = t.response(ctx).Header.TrailerHeader()
		trailers = trailers[:len(trailers)-len("\r\n")]
	}
	t.finishResponse(w, trailers, nil)
}

// streamCloser returns a closer that interrupts a read of the stream from another goroutine, or
// nil. Only pipes and connections are known to support that. SetBodyStreamWriter creates a pipe.
func streamCloser(stream io.Reader) io.Closer {
	switch s := stream.(type) {
	case net.Conn:
		return s
	case *io.PipeReader:
		return s
	}
	return nil
}

// copyStream copies the stream into the response. If the response has a declared length, copyStream
// returns after that length.
func (t *handlerConn) copyStream(w *h1.Writer, stream io.Reader) (err error) {
	defer func() {
		if v := recover(); v != nil {
			t.s.appPanicked(v)
			err = errPanicked
		}
	}()
	room := t.s.bodies.Get(t.s.options.BodyBuffer)
	defer t.s.bodies.Put(room)
	buf := room[:cap(room)]
	left := int64(math.MaxInt64)
	if w.Kind() == h1.Length {
		left = t.p.conn.res.ContentLength()
	}
	for left > 0 {
		n, rerr := stream.Read(buf[:min(left, int64(len(buf)))])
		if t.closed.Load() || t.taskFailed.Load() {
			return errStreamCancelled // an interrupted stream may end as if it were complete
		}
		left -= int64(n)
		if err := t.writePart(w, buf[:n]); err != nil {
			return err
		}
		switch {
		case errors.Is(rerr, io.EOF) && left > 0 && w.Kind() == h1.Length:
			return io.ErrUnexpectedEOF
		case errors.Is(rerr, io.EOF):
			return nil
		case rerr != nil:
			return rerr
		}
	}
	return nil
}

// writePart sends a part of a stream immediately, because the next part may arrive much later.
func (t *handlerConn) writePart(w *h1.Writer, part []byte) error {
	if t.p.slot.load().flags&slotEvents != 0 {
		return t.p.slot.events.writeLocked(w, part)
	}
	if _, err := w.Write(part); err != nil {
		return err
	}
	return w.Flush()
}

// writeLocked sends a part of the stream. It returns errStreamEnded if the stream ends with this
// part.
func (e *eventRelay) writeLocked(w *h1.Writer, part []byte) error {
	if !e.lockWrite() {
		return errStreamEnded
	}
	over, err := e.writePart(w, part)
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if over || !e.unlockWrite() {
		return errStreamEnded
	}
	return nil
}
