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

// errDirectWrite is returned to a handler that writes to the connection itself.
var errDirectWrite = errors.New("proxy: handlers may not write to the connection: set the Response instead")

// handlerOutcome is the result of a request that an app in this process has run.
type handlerOutcome uint8

const (
	outcomeUnread     handlerOutcome = iota // fasthttp could not read the header
	outcomeNotCalled                        // the run was cancelled before the handler was called
	outcomeNoResponse                       // the run was cancelled, or the client disconnected or broke off the body, before the response began
	outcomeFailed                           // the app failed: see handlerConn.failed
	outcomeResponded                        // a response was sent, complete or not, and the attempt has ended
)

// serveRequest runs the handler for the request whose header is in w, and sends its response. The
// in-flight count of the shard falls when the handler has returned and every Task that it began has
// ended, also if the client has disconnected before.
func (t *handlerConn) serveRequest(to reply, p *attempt, w *h1.Writer) handlerOutcome {
	t.attempt = *p // a copy, so that p itself stays on the stack
	t.a, t.reply, t.p, t.outcome, t.answered, t.disposition = to.requestState, to, &t.attempt, outcomeUnread, false, dispositionEnded
	t.runNumber = p.slot.load().number
	t.taskFailed.Store(false)
	t.serveFastHTTP(w.Unsent())
	out := t.outcome // read it before the pool can lend t to another request
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

// detailHandlerPanicked is the detail of the error response after a panic of the handler.
const detailHandlerPanicked = "the app's handler panicked"

// disposition decides what becomes of a handlerConn after its request.
type disposition uint8

const (
	dispositionEnded   disposition = iota // the attempt has ended, and the connection with it
	dispositionReuse                      // return it to the pool
	dispositionDiscard                    // close it
)

// handle is the handler of the fasthttp Server. It runs the handler of the app and sends the
// response.
func (t *handlerConn) handle(ctx *fasthttp.RequestCtx) {
	if t.blank == nil {
		t.blank = new(fasthttp.Response)
		ctx.Response.CopyTo(t.blank)
	}
	t.outcome = t.handleRequest(ctx)
	// Everything that fasthttp writes from here on is discarded. It writes no date: see
	// appendResponseHeader.
	t.answered = true
	ctx.Response.ReleaseBody(maxReusedBody)
	t.blank.CopyTo(t.response(ctx))
	ctx.Hijack(nil)
	ctx.HijackSetNoResponse(false)
	if cap(t.longBody) > maxReusedBody {
		t.longBody = nil
	}
}

// maxReusedBody is the largest buffer for a body, in bytes, that a handlerConn keeps for the next
// request.
const maxReusedBody = 64 << 10

// handleRequest does the work of handle and returns the outcome.
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
		t.p.disconnect.arm() // no goroutine reads from the client now
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

// bodyDone records that the body is not read any more. If a cancellation has interrupted the
// reading, the connection of the client ends with this request.
func (t *handlerConn) bodyDone() {
	t.mu.Lock()
	reading := t.mu.client != nil
	t.mu.client = nil
	t.mu.Unlock()
	if reading && t.closed.Load() {
		t.a.body.broken = true
	}
}

// callHandler calls the handler. failed is the reason why the handler has no response, or empty.
func (t *handlerConn) callHandler(ctx *fasthttp.RequestCtx) (failed string) {
	returned := false
	defer func() {
		switch v := recover(); {
		case returned:
		case v == nil: // runtime.Goexit: this goroutine ends, and serveFastHTTP with it
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

// discardResponse drops a response that is not sent, and waits for the goroutines that write it.
func (t *handlerConn) discardResponse(ctx *fasthttp.RequestCtx) {
	_ = t.Close()
	t.closeStream(ctx)
	t.tasks.Wait()
}

// checkResponse builds the header of the response and validates it like that of any app. failed is
// the reason why the response is invalid, or empty.
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
	case stream == nil: // for HEAD the handler may set the length of the body of a GET
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

// appendResponseHeader appends the header as fasthttp would write it, without a date: fasthttp
// keeps the date in a goroutine of the whole process, and the proxy writes its own.
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
			continue // the default value of fasthttp, which describes no body
		}
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// response returns the response of the handler. After TimeoutError the handler may still write to
// its own Response and use everything else that belongs to the request. Therefore the memory of the
// request is not reused then.
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

// relayResponse sends the response to the client.
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
	w := t.a.conn.WriteResponseHeader(head, t.reply.head(p.route, head))
	if stream != nil {
		t.relayStream(ctx, w, stream)
		return outcomeResponded
	}
	var err error
	if w.Kind() != h1.NoBody {
		_, err = w.Write(res.Body())
	}
	if t.runningTasks.Load() > 0 && err == nil {
		err = w.Flush() // the client does not wait for the tasks
	}
	t.tasks.Wait()
	t.finishResponse(w, nil, err)
	return outcomeResponded
}

// finishResponse ends a request whose response was passed to w. A slow client may take its time to
// read the rest of the buffer.
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

// appPanicked logs a panic of the app. The node continues.
func (s *Server) appPanicked(v any) {
	s.o.Log.Error().Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("app panicked")
}

// closeStream closes the body stream of the response. Its Close may panic.
func (t *handlerConn) closeStream(ctx *fasthttp.RequestCtx) {
	t.setStream(nil)
	defer func() {
		if v := recover(); v != nil {
			t.s.appPanicked(v)
		}
	}()
	_ = t.response(ctx).CloseBodyStream()
}

// errHandlerTarget rejects a request target that fasthttp cannot parse.
var errHandlerTarget = h1.NewError(400, "the app's server cannot read the target")

// setRequestBody sets the body of the fasthttp request: the complete body, or a stream if the
// handler accepts streams. It omits trailers, because fasthttp would add them to the headers.
func (t *handlerConn) setRequestBody(ctx *fasthttp.RequestCtx) error {
	a, r := t.a, &ctx.Request
	if target := r.Header.RequestURI(); bytes.HasPrefix(target, []byte("//")) {
		// may be of the judged one.
		// fasthttp takes the text after // for the host if the target also contains ://. The
		// key may come from the host that was validated, so parse the complete URL.
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

// runInHandler runs the request in the app of this process and sends the response.
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
		c.x.runAborted = true // the app may have run the request
		return fail(problem.AppFailed, t.failed)
	case outcomeResponded:
	}
	return done
}
