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

// errDirectWrite is returned to a handler that writes to the connection instead of its Response.
var errDirectWrite = errors.New("proxy: handlers may not write to the connection: set the Response instead")

// handlerOutcome is the result of a request for an app that runs in this process.
type handlerOutcome uint8

const (
	outcomeUnread     handlerOutcome = iota // fasthttp could not read the header
	outcomeNotCalled                        // the run was cancelled before the handler was called
	outcomeNoResponse                       // the run was cancelled, the client disconnected, or the request body broke off before the response began
	outcomeFailed                           // the app failed; handlerConn.failed contains the reason
	outcomeResponded                        // a response was sent, completely or in part, and the attempt has ended
)

// serveRequest runs the handler for the request whose header is buffered in w, and sends the
// response. The request counts as in flight until the handler and all its Tasks have ended, even if
// the client disconnects earlier.
func (t *handlerConn) serveRequest(to reply, p *attempt, w *h1.Writer) handlerOutcome {
	t.attempt = *p // a copy, so that p itself stays on the stack
	t.a, t.reply, t.p, t.outcome, t.answered, t.disposition = to.requestState, to, &t.attempt, outcomeUnread, false, dispositionEnded
	t.runNumber = p.slot.load().number
	t.taskFailed.Store(false)
	t.serveFastHTTP(w.Unsent())
	out := t.outcome // read the outcome before the pool can assign t to another request
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

// disposition is what happens to a handlerConn after its request.
type disposition uint8

const (
	dispositionEnded   disposition = iota // the attempt has ended and closed it
	dispositionReuse                      // return it to the pool
	dispositionDiscard                    // close it
)

// handle is the handler of the fasthttp.Server. It runs the handler of the app, sends the response
// to the client, and resets the RequestCtx for reuse.
func (t *handlerConn) handle(ctx *fasthttp.RequestCtx) {
	if t.blank == nil {
		t.blank = new(fasthttp.Response)
		ctx.Response.CopyTo(t.blank)
	}
	t.outcome = t.handleRequest(ctx)
	// From here on, the output of fasthttp is discarded, because the response has already been
	// sent. fasthttp adds no date: see appendResponseHeader.
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

// handleRequest runs the handler and sends its response. It returns the outcome.
func (t *handlerConn) handleRequest(ctx *fasthttp.RequestCtx) handlerOutcome {
	a := t.a
	if t.closed.Load() {
		return outcomeNotCalled
	}
	if err := t.setRequestBody(ctx); err != nil {
		t.bodyDone()
		if !a.body.broken {
			a.body.clientErr = err
		}
		return outcomeNoResponse
	}
	if a.req.Body.Done() {
		t.p.disconnect.arm() // no goroutine reads from the client now, so a watch must detect a disconnect
	}
	t.failed = t.callHandler(ctx)
	t.body.close()
	t.bodyDone()
	if t.failed == "" {
		t.failed = t.checkResponse(ctx)
	}
	switch {
	case a.body.clientErr != nil || t.p.slot.load().cause != causeNone:
		t.discardResponse(ctx)
		return outcomeNoResponse
	case t.failed != "":
		t.discardResponse(ctx)
		return outcomeFailed
	}
	return t.sendResponse(ctx)
}

// bodyDone records that the handler no longer reads the body. If a cancellation has interrupted a
// read, the client's connection is out of step and must end with this request.
func (t *handlerConn) bodyDone() {
	t.mu.Lock()
	reading := t.mu.client != nil
	t.mu.client = nil
	t.mu.Unlock()
	if reading && t.closed.Load() {
		t.a.body.broken = true
	}
}

// callHandler calls the handler of the app. failed is empty if the handler has returned; otherwise
// it is the reason for the error response.
func (t *handlerConn) callHandler(ctx *fasthttp.RequestCtx) (failed string) {
	returned := false
	defer func() {
		switch v := recover(); {
		case returned:
		case v == nil: // runtime.Goexit: this goroutine exits, and serveFastHTTP returns
			t.discardResponse(ctx)
			t.p.abort()
		default:
			t.s.appPanicked(v)
			failed = detailHandlerPanicked
		}
	}()
	t.s.options.Handler(ctx)
	returned = true
	return ""
}

// discardResponse discards a response that is not sent, and waits for the tasks that still write
// it.
func (t *handlerConn) discardResponse(ctx *fasthttp.RequestCtx) {
	_ = t.Close()
	t.closeStream(ctx)
	t.tasks.Wait()
}

// checkResponse builds the header of the response and validates it like the response of any other
// app. failed is empty if the response is valid; otherwise it is the reason for the error response.
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
	case stream == nil: // a handler may set the Content-Length that a GET would have
	case res.Header.ContentLength() < 0:
		res.Header.SetContentLength(-1)
	}
	t.responseHeader = appendResponseHeader(t.responseHeader[:0], &res.Header)
	if err := t.p.conn.res.ParseHeader(t.responseHeader, t.a.req.Method(), t.a.settings.MaxHeaders); err != nil {
		return fmt.Sprintf("the handler's response is malformed: %v", err)
	}
	if t.p.conn.res.Status() < 200 {
		return fmt.Sprintf("the handler's response has status %d, which cannot be a final one", t.p.conn.res.Status())
	}
	return ""
}

// appendResponseHeader appends the header in the format of fasthttp, but without a date. fasthttp
// updates its date in a process-wide goroutine, and the proxy sets its own date.
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
			continue // the default Content-Type of fasthttp, although there is no body
		}
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// response returns the response that the handler has set. After TimeoutError, a handler may still
// be running and use its Response and all other data of the request. Therefore response then marks
// t as unusable, so that no memory of the request is reused.
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

// sendResponse sends the response to the client.
func (t *handlerConn) sendResponse(ctx *fasthttp.RequestCtx) handlerOutcome {
	p, res := t.p, t.response(ctx)
	head := &p.conn.res
	stream := res.BodyStream()
	if head.Has(h1.FieldShardwayHold) {
		t.a.noteHold(head, p.epoch)
	}
	t.a.server.appSilence.RecordResponse(t.a.server.clock.Now())
	flags := uint64(slotResponseBegun)
	if stream != nil && isEvents(head) {
		p.slot.events.begin(p.slot.load().number, false, false, nil)
		flags |= slotEvents
	}
	if !p.slot.mark(flags) {
		t.discardResponse(ctx)
		return outcomeNoResponse
	}
	t.a.exchange.leaveQueue()
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
		err = w.Flush() // send the response before waiting for the tasks
	}
	t.tasks.Wait()
	t.finishResponse(w, nil, err)
	return outcomeResponded
}

// finishResponse ends a request whose response has been written to w. It releases the shard before
// it flushes w, so that a slow client does not block the shard. err is the first error of a write.
func (t *handlerConn) finishResponse(w *h1.Writer, trailers []byte, err error) {
	t.disposition = dispositionReuse
	if t.p.slot.finish() != causeNone || t.unusable {
		t.disposition = dispositionDiscard
	}
	t.p.release()
	t.p.disconnect.disarm()
	if err != nil || w.Close(trailers) != nil {
		t.a.exchange.aborted = true
	}
}

// appPanicked logs a panic in the app's code. The node continues to run.
func (s *Server) appPanicked(v any) {
	s.options.Log.Error().Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("app panicked")
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

// setRequestBody gives the handler the request body: as a stream if the handler accepts streams,
// and otherwise as a complete buffer. It omits trailers, because fasthttp would add them to the
// headers.
func (t *handlerConn) setRequestBody(ctx *fasthttp.RequestCtx) error {
	a, r := t.a, &ctx.Request
	if target := r.Header.RequestURI(); bytes.HasPrefix(target, []byte("//")) {
		// If the target starts with // and contains ://, fasthttp uses the text after // as the
		// host. The shard key may come from the host that was validated. Therefore parse an
		// absolute URL with that host.
		whole := slices.Concat([]byte("http://"), r.Header.Host(), target)
		if err := ctx.URI().Parse(nil, whole); err != nil {
			return errHandlerTarget
		}
	}
	switch body := &a.req.Body; {
	case body.Kind() == h1.NoBody:
	case a.body.isFullyBuffered():
		r.SetBodyRaw(a.body.buffered)
		r.Header.SetContentLength(len(a.body.buffered))
	case t.s.options.HandlerStreams:
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

// runInHandler runs an attempt in the app of this process, and sends the response.
func (c *client) runInHandler(p *attempt) decision {
	p.conn.pool.markProven(p.conn)
	w := c.requestWriter.writeHeader(p)
	if _, err := c.askLease(); err != nil {
		return c.handleUnsent(p, err)
	}
	if c.exchange.wantAccepted {
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
		c.exchange.runAborted = true // the app may have executed the request
		return fail(problem.AppFailed, t.failed)
	case outcomeResponded:
	}
	return done
}
