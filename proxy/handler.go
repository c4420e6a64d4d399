package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/valyala/fasthttp"

	"shardway/internal/problem"
	"shardway/proxy/h1"
)

// errNotYours is what a handler gets that writes to the connection past its answer.
var errNotYours = errors.New("proxy: handlers may not write to the connection: set the Response instead")

// outcome is what came of a request on a seat.
type outcome uint8

const (
	seatUnread     outcome = iota // fasthttp could not read its head
	seatUncalled                  // it was cut before the handler was called
	seatUnanswered                // it was cut, or its client left or broke off the body, before the answer began
	seatFailed                    // the app failed: seat.failed
	seatAnswered                  // its answer left, or broke off: the trip has been ended
)

// take has the app run the request whose head is in w, and relays its answer. A shard's
// in-flight count falls when the handler has returned, and every Task that it began
// has ended, however the request's connection ended.
func (t *handlerConn) take(to reply, p *attempt, w *h1.Writer) outcome {
	t.attempt = *p // itself it stays on the stack
	t.a, t.reply, t.p, t.outcome, t.answered, t.fate = to.requestState, to, &t.attempt, seatUnread, false, fateGone
	t.number = p.slot.load().number
	t.broke.Store(false)
	t.serve(w.Unsent())
	out := t.outcome // who takes the seat from its pool next has one of its own
	switch {
	case out != seatAnswered:
	case t.fate == fateKeep:
		w.Discard()
		p.conn.pool.put(p.conn)
	case t.fate == fateDrop:
		p.conn.pool.discard(p.conn)
	}
	return out
}

const handlerFailed = "the app's handler panicked"

// fate is what becomes of a seat after its request.
type fate uint8

const (
	fateGone fate = iota // its trip has been ended, and it with that
	fateKeep             // it may be used again
	fateDrop             // it may not
)

// handle runs the handler and answers what it says, within the Server of the seat.
func (t *handlerConn) handle(ctx *fasthttp.RequestCtx) {
	if t.blank == nil {
		t.blank = new(fasthttp.Response)
		ctx.Response.CopyTo(t.blank)
	}
	t.outcome = t.answer(ctx)
	// What fasthttp writes now nobody gets. It writes no date: see appendHead.
	t.answered = true
	ctx.Response.ReleaseBody(keptAnswer)
	t.blank.CopyTo(t.response(ctx))
	ctx.Hijack(nil)
	ctx.HijackSetNoResponse(false)
	if cap(t.long) > keptAnswer {
		t.long = nil
	}
}

// keptAnswer is up to what size the memory for bodies stays with a seat.
const keptAnswer = 64 << 10

// answer is handle, and says what the request came to.
func (t *handlerConn) answer(ctx *fasthttp.RequestCtx) outcome {
	a := t.a
	if t.closed.Load() {
		return seatUncalled
	}
	if err := t.fill(ctx); err != nil {
		t.uploaded()
		if !a.body.broken {
			a.body.rerr = err
		}
		return seatUnanswered
	}
	if a.req.Body.Done() {
		t.p.disconnect.arm() // nobody reads the client
	}
	t.failed = t.run(ctx)
	t.body.close()
	t.uploaded()
	if t.failed == "" {
		t.failed = t.judge(ctx)
	}
	switch {
	case a.body.rerr != nil || t.p.slot.load().cause != causeNone:
		t.abandon(ctx)
		return seatUnanswered
	case t.failed != "":
		t.abandon(ctx)
		return seatFailed
	}
	return t.relay(ctx)
}

// uploaded notes that the body is read no more. If it was the cut that ended that, the
// client's connection ends with this request.
func (t *handlerConn) uploaded() {
	t.mu.Lock()
	reading := t.mu.client != nil
	t.mu.client = nil
	t.mu.Unlock()
	if reading && t.closed.Load() {
		t.a.body.broken = true
	}
}

// run calls the handler; failed says why there is no answer of its own.
func (t *handlerConn) run(ctx *fasthttp.RequestCtx) (failed string) {
	returned := false
	defer func() {
		switch v := recover(); {
		case returned:
		case v == nil: // runtime.Goexit: the goroutine ends, and serve with it
			t.abandon(ctx)
			t.p.abort()
		default:
			t.s.appPanicked(v)
			failed = handlerFailed
		}
	}()
	t.s.o.Handler(ctx)
	returned = true
	return ""
}

// abandon lets go of an answer that nobody will get, and waits for what writes it.
func (t *handlerConn) abandon(ctx *fasthttp.RequestCtx) {
	_ = t.Close()
	t.closeStream(ctx)
	t.tasks.Wait()
}

// judge makes the head of the handler's answer and judges it like any app's.
func (t *handlerConn) judge(ctx *fasthttp.RequestCtx) (failed string) {
	switch {
	case ctx.Hijacked():
		ctx.Hijack(nil)
		return "the handler tried to take over the connection (Hijack), which an app inside the node cannot do: to upgrade connections, run the app behind --upstream"
	case t.broke.Load():
		return handlerFailed
	}
	res := t.response(ctx)
	res.SkipBody = false
	stream := res.BodyStream()
	switch {
	case stream == nil && (len(res.Body()) > 0 || !t.a.req.IsHead()):
		res.Header.SetContentLength(len(res.Body()))
	case stream == nil: // to HEAD the handler may say how long the body of a GET is
	case res.Header.ContentLength() < 0:
		res.Header.SetContentLength(-1)
	}
	t.made = appendHead(t.made[:0], &res.Header)
	if err := t.p.conn.res.ParseHeader(t.made, t.a.req.Method(), t.a.set.MaxHeaders); err != nil {
		return fmt.Sprintf("the handler's response is malformed: %v", err)
	}
	if t.p.conn.res.Status() < 200 {
		return fmt.Sprintf("the handler's response has status %d, which cannot be a final one", t.p.conn.res.Status())
	}
	return ""
}

// appendHead appends the head as fasthttp would write it, but for a date: it keeps
// that in a goroutine of the whole process, and the proxy writes its own.
func appendHead(b []byte, h *fasthttp.ResponseHeader) []byte {
	text := string(h.StatusMessage())
	if text == "" {
		text = fasthttp.StatusMessage(h.StatusCode())
	}
	b = appendStatusLine(b, h.StatusCode(), text)
	trailers := h.PeekTrailerKeys()
	for name, value := range h.All() {
		switch {
		case len(trailers) > 0 && slices.ContainsFunc(trailers, func(t []byte) bool { return bytes.Equal(t, name) }):
			continue
		case h.ContentLength() == 0 && string(name) == fasthttp.HeaderContentType && string(value) == "text/plain; charset=utf-8":
			continue // the default, of nothing
		}
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// response is what the handler answers. After TimeoutError it may still write to its
// own Response, and go on with everything else that the request lent it.
func (t *handlerConn) response(ctx *fasthttp.RequestCtx) *fasthttp.Response {
	late := ctx.LastTimeoutErrorResponse()
	if late == nil {
		return &ctx.Response
	}
	if !t.unusable {
		t.unusable = true
		addr := t.RemoteAddr()
		t.remote.Store(&addr)
		t.a.body.buffered, t.long = nil, nil
		_ = t.Close()
	}
	return late
}

// relay passes the answer on.
func (t *handlerConn) relay(ctx *fasthttp.RequestCtx) outcome {
	p, res := t.p, t.response(ctx)
	head := &p.conn.res
	stream := res.BodyStream()
	if head.Has(h1.FieldShardwayHold) {
		t.a.noteHold(head, p.epoch)
	}
	t.a.s.appWatch.record(t.a.s.clock.now())
	flags := uint64(slotAnswered)
	if stream != nil && isEvents(head) {
		p.slot.events.begin(p.slot.load().number, false, false, nil)
		flags |= slotEvents
	}
	if !p.slot.mark(flags) {
		t.abandon(ctx)
		return seatUnanswered
	}
	t.a.x.leaveQueue()
	t.reply.answered(head)
	w := t.a.conn.WriteResponseHead(head, t.reply.head(p.route, head))
	if stream != nil {
		t.relayStream(ctx, w, stream)
		return seatAnswered
	}
	var err error
	if w.Kind() != h1.NoBody {
		_, err = w.Write(res.Body())
	}
	if t.going.Load() > 0 && err == nil {
		err = w.Flush() // who gets it need not wait for what goes on
	}
	t.tasks.Wait()
	t.relayed(w, nil, err)
	return seatAnswered
}

// relayed ends a request whose answer has left the handler. The client may take its
// time for what is still in the buffer.
func (t *handlerConn) relayed(w *h1.Writer, trailers []byte, err error) {
	t.fate = fateKeep
	if t.p.slot.finish() != causeNone || t.unusable {
		t.fate = fateDrop
	}
	t.p.release()
	t.p.disconnect.disarm()
	if err != nil || w.Close(trailers) != nil {
		t.a.x.aborted = true
	}
}

// appPanicked notes that the app panicked. The node goes on.
func (s *Server) appPanicked(v any) {
	s.o.Log.Error().Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("app panicked")
}

// closeStream ends the stream of an answer. What it reads from may panic.
func (t *handlerConn) closeStream(ctx *fasthttp.RequestCtx) {
	t.reading(nil)
	defer func() {
		if v := recover(); v != nil {
			t.s.appPanicked(v)
		}
	}()
	_ = t.response(ctx).CloseBodyStream()
}

// errTarget refuses a target that fasthttp cannot read.
var errTarget = h1.NewError(400, "the app's server cannot read the target")

// fill gives the request the body: whole, or for who takes streams one to read.
// Trailers are left out: fasthttp would put them among the headers.
func (t *handlerConn) fill(ctx *fasthttp.RequestCtx) error {
	a, r := t.a, &ctx.Request
	if target := r.Header.RequestURI(); bytes.HasPrefix(target, []byte("//")) {
		// fasthttp takes what follows for the host if there is a :// in it too; the key
		// may be of the judged one.
		whole := slices.Concat([]byte("http://"), r.Header.Host(), target)
		if err := ctx.URI().Parse(nil, whole); err != nil {
			return errTarget
		}
	}
	switch body := &a.req.Body; {
	case body.Kind() == h1.NoBody:
	case a.body.whole():
		r.SetBodyRaw(a.body.buffered)
		r.Header.SetContentLength(len(a.body.buffered))
	case t.s.o.HandlerStreams:
		size := -1
		if left := body.Remaining(); left >= 0 {
			size = len(a.body.buffered) + int(left)
		}
		t.uploads(a.conn)
		t.body.open(a)
		r.SetBodyStream(&t.body, size)
	default:
		t.uploads(a.conn)
		if err := t.readWhole(); err != nil {
			return err
		}
		r.SetBodyRaw(t.long)
		r.Header.SetContentLength(len(t.long))
	}
	return nil
}

// call has the app in this process run the request, and answers it.
func (c *client) call(p *attempt) decision {
	p.conn.pool.markProven(p.conn)
	w := c.requestWriter.writeHeader(p)
	if _, err := c.askLease(); err != nil {
		return c.handleUnsent(p, err)
	}
	if c.x.wantAccepted {
		if err := c.reply.taken(); err != nil {
			return c.handleBroken(p, err)
		}
	}
	t := p.conn.inproc
	switch t.take(c.reply, p, w) {
	case seatUnread:
		p.abort()
		return fail(problem.BadRequest, "the app's server cannot read the request")
	case seatUncalled:
		return c.handleUnsent(p, errCutFirst)
	case seatUnanswered:
		return c.handleBroken(p, nil)
	case seatFailed:
		p.abort()
		c.x.runAborted = true // as with broken
		return fail(problem.AppFailed, t.failed)
	case seatAnswered:
	}
	return done
}
