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

// errDirectWrite is what a handler gets that writes to the connection past its answer.
var errDirectWrite = errors.New("proxy: handlers may not write to the connection: set the Response instead")

// outcome is what came of a request on a seat.
type handlerOutcome uint8

const (
	outcomeUnread     handlerOutcome = iota // fasthttp could not read its head
	outcomeNotCalled                        // it was cut before the handler was called
	outcomeNoResponse                       // it was cut, or its client left or broke off the body, before the answer began
	outcomeFailed                           // the app failed: seat.failed
	outcomeResponded                        // its answer left, or broke off: the trip has been ended
)

// take has the app run the request whose head is in w, and relays its answer. A shard's
// in-flight count falls when the handler has returned, and every Task that it began
// has ended, however the request's connection ended.
func (t *handlerConn) serveRequest(to reply, p *attempt, w *h1.Writer) handlerOutcome {
	t.attempt = *p // itself it stays on the stack
	t.a, t.reply, t.p, t.outcome, t.answered, t.disposition = to.requestState, to, &t.attempt, outcomeUnread, false, dispositionEnded
	t.runNumber = p.slot.load().number
	t.taskFailed.Store(false)
	t.serveFastHTTP(w.Unsent())
	out := t.outcome // who takes the seat from its pool next has one of its own
	switch {
	case out != outcomeResponded:
	case t.disposition == dispositionReuse:
		w.Discard()
		p.conn.pool.put(p.conn)
	case t.disposition == dispositionDiscard:
		p.conn.pool.discard(p.conn)
	}
	return out
}

const detailHandlerPanicked = "the app's handler panicked"

// fate is what becomes of a seat after its request.
type disposition uint8

const (
	dispositionEnded   disposition = iota // its trip has been ended, and it with that
	dispositionReuse                      // it may be used again
	dispositionDiscard                    // it may not
)

// handle runs the handler and answers what it says, within the Server of the seat.
func (t *handlerConn) handle(ctx *fasthttp.RequestCtx) {
	if t.blank == nil {
		t.blank = new(fasthttp.Response)
		ctx.Response.CopyTo(t.blank)
	}
	t.outcome = t.handleRequest(ctx)
	// What fasthttp writes now nobody gets. It writes no date: see appendResponseHeader.
	t.answered = true
	ctx.Response.ReleaseBody(maxReusedBody)
	t.blank.CopyTo(t.response(ctx))
	ctx.Hijack(nil)
	ctx.HijackSetNoResponse(false)
	if cap(t.longBody) > maxReusedBody {
		t.longBody = nil
	}
}

// maxReusedBody is up to what size the memory for bodies stays with a seat.
const maxReusedBody = 64 << 10

// answer is handle, and says what the request came to.
func (t *handlerConn) handleRequest(ctx *fasthttp.RequestCtx) handlerOutcome {
	a := t.a
	if t.closed.Load() {
		return outcomeNotCalled
	}
	if err := t.setRequestBody(ctx); err != nil {
		t.bodyDone()
		if !a.body.broken {
			a.body.rerr = err
		}
		return outcomeNoResponse
	}
	if a.req.Body.Done() {
		t.p.disconnect.arm() // nobody reads the client
	}
	t.failed = t.callHandler(ctx)
	t.body.close()
	t.bodyDone()
	if t.failed == "" {
		t.failed = t.checkResponse(ctx)
	}
	switch {
	case a.body.rerr != nil || t.p.slot.load().cause != causeNone:
		t.discardResponse(ctx)
		return outcomeNoResponse
	case t.failed != "":
		t.discardResponse(ctx)
		return outcomeFailed
	}
	return t.relayResponse(ctx)
}

// uploaded notes that the body is read no more. If it was the cut that ended that, the
// client's connection ends with this request.
func (t *handlerConn) bodyDone() {
	t.mu.Lock()
	reading := t.mu.client != nil
	t.mu.client = nil
	t.mu.Unlock()
	if reading && t.closed.Load() {
		t.a.body.broken = true
	}
}

// run calls the handler; failed says why there is no answer of its own.
func (t *handlerConn) callHandler(ctx *fasthttp.RequestCtx) (failed string) {
	returned := false
	defer func() {
		switch v := recover(); {
		case returned:
		case v == nil: // runtime.Goexit: the goroutine ends, and serve with it
			t.discardResponse(ctx)
			t.p.abort()
		default:
			t.s.appPanicked(v)
			failed = detailHandlerPanicked
		}
	}()
	t.s.o.Handler(ctx)
	returned = true
	return ""
}

// abandon lets go of an answer that nobody will get, and waits for what writes it.
func (t *handlerConn) discardResponse(ctx *fasthttp.RequestCtx) {
	_ = t.Close()
	t.closeStream(ctx)
	t.tasks.Wait()
}

// judge makes the head of the handler's answer and judges it like any app's.
func (t *handlerConn) checkResponse(ctx *fasthttp.RequestCtx) (failed string) {
	switch {
	case ctx.Hijacked():
		ctx.Hijack(nil)
		return "the handler tried to take over the connection (Hijack), which an app inside the node cannot do: to upgrade connections, run the app behind --upstream"
	case t.taskFailed.Load():
		return detailHandlerPanicked
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
	t.responseHeader = appendResponseHeader(t.responseHeader[:0], &res.Header)
	if err := t.p.conn.res.ParseHeader(t.responseHeader, t.a.req.Method(), t.a.set.MaxHeaders); err != nil {
		return fmt.Sprintf("the handler's response is malformed: %v", err)
	}
	if t.p.conn.res.Status() < 200 {
		return fmt.Sprintf("the handler's response has status %d, which cannot be a final one", t.p.conn.res.Status())
	}
	return ""
}

// appendResponseHeader appends the head as fasthttp would write it, but for a date: it keeps
// that in a goroutine of the whole process, and the proxy writes its own.
func appendResponseHeader(b []byte, h *fasthttp.ResponseHeader) []byte {
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
		t.savedRemoteAddr.Store(&addr)
		t.a.body.buffered, t.longBody = nil, nil
		_ = t.Close()
	}
	return late
}

// relay passes the answer on.
func (t *handlerConn) relayResponse(ctx *fasthttp.RequestCtx) handlerOutcome {
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
		t.discardResponse(ctx)
		return outcomeNoResponse
	}
	t.a.x.leaveQueue()
	t.reply.answered(head)
	w := t.a.conn.WriteResponseHead(head, t.reply.head(p.route, head))
	if stream != nil {
		t.relayStream(ctx, w, stream)
		return outcomeResponded
	}
	var err error
	if w.Kind() != h1.NoBody {
		_, err = w.Write(res.Body())
	}
	if t.runningTasks.Load() > 0 && err == nil {
		err = w.Flush() // who gets it need not wait for what goes on
	}
	t.tasks.Wait()
	t.finishResponse(w, nil, err)
	return outcomeResponded
}

// relayed ends a request whose answer has left the handler. The client may take its
// time for what is still in the buffer.
func (t *handlerConn) finishResponse(w *h1.Writer, trailers []byte, err error) {
	t.disposition = dispositionReuse
	if t.p.slot.finish() != causeNone || t.unusable {
		t.disposition = dispositionDiscard
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
	t.setStream(nil)
	defer func() {
		if v := recover(); v != nil {
			t.s.appPanicked(v)
		}
	}()
	_ = t.response(ctx).CloseBodyStream()
}

// errHandlerTarget refuses a target that fasthttp cannot read.
var errHandlerTarget = h1.NewError(400, "the app's server cannot read the target")

// fill gives the request the body: whole, or for who takes streams one to read.
// Trailers are left out: fasthttp would put them among the headers.
func (t *handlerConn) setRequestBody(ctx *fasthttp.RequestCtx) error {
	a, r := t.a, &ctx.Request
	if target := r.Header.RequestURI(); bytes.HasPrefix(target, []byte("//")) {
		// fasthttp takes what follows for the host if there is a :// in it too; the key
		// may be of the judged one.
		whole := slices.Concat([]byte("http://"), r.Header.Host(), target)
		if err := ctx.URI().Parse(nil, whole); err != nil {
			return errHandlerTarget
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
		t.setBodySource(a.conn)
		t.body.open(a)
		r.SetBodyStream(&t.body, size)
	default:
		t.setBodySource(a.conn)
		if err := t.readFullBody(); err != nil {
			return err
		}
		r.SetBodyRaw(t.longBody)
		r.Header.SetContentLength(len(t.longBody))
	}
	return nil
}

// call has the app in this process run the request, and answers it.
func (c *client) runInHandler(p *attempt) decision {
	p.conn.pool.markProven(p.conn)
	w := c.requestWriter.writeHeader(p)
	if _, err := c.askLease(); err != nil {
		return c.handleUnsent(p, err)
	}
	if c.x.wantAccepted {
		if err := c.reply.sendAccepted(); err != nil {
			return c.handleBroken(p, err)
		}
	}
	t := p.conn.inproc
	switch t.serveRequest(c.reply, p, w) {
	case outcomeUnread:
		p.abort()
		return fail(problem.BadRequest, "the app's server cannot read the request")
	case outcomeNotCalled:
		return c.handleUnsent(p, errCutFirst)
	case outcomeNoResponse:
		return c.handleBroken(p, nil)
	case outcomeFailed:
		p.abort()
		c.x.runAborted = true // as with broken
		return fail(problem.AppFailed, t.failed)
	case outcomeResponded:
	}
	return done
}
