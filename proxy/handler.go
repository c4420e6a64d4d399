package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/valyala/fasthttp"

	"shardway/internal/problem"
	"shardway/proxy/cause"
	"shardway/proxy/eventrelay"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
)

// errDirectWrite is returned to a handler that writes to the connection instead of its Response.
var errDirectWrite = errors.New("proxy: handlers may not write to the connection: set the Response instead")

// handlerOutcome is the result of a request for an app that runs in this process.
type handlerOutcome uint8

const (
	outcomeUnread     handlerOutcome = iota // fasthttp could not read the header
	outcomeNotCalled                        // the run was cancelled before the handler was called
	outcomeNoResponse                       // the run was cancelled, the client disconnected, or the request body broke off before the response began
	outcomeFailed                           // the app failed; handlerConn.failure contains the reason
	outcomeResponded                        // a response was sent, completely or in part, and the attempt has ended
)

// serveRequest runs the handler for the request whose header is buffered in writer, and sends the
// response. The request is treated as in flight until the handler and all its Tasks have ended,
// even if the client disconnects earlier.
func (hc *handlerConn) serveRequest(responder reply, attempt *attempt, writer *h1.Writer) handlerOutcome {
	hc.bindRequest(responder, attempt)
	hc.serveFastHTTP(writer.Unsent())
	outcome := hc.outcome // read the outcome before the pool can assign hc to another request
	if outcome != outcomeResponded {
		return outcome
	}
	switch hc.disposition {
	case dispositionReuse:
		writer.Discard()
		attempt.conn.Pool.Put(attempt.conn)
	case dispositionDiscard:
		attempt.conn.Pool.Discard(attempt.conn)
	case dispositionEnded:
	}
	return outcome
}

// bindRequest prepares hc for a request.
func (hc *handlerConn) bindRequest(responder reply, attempt *attempt) {
	hc.state, hc.reply = responder.requestState, responder
	hc.attempt = *attempt // a copy, so that the caller's attempt stays on the stack
	hc.active = &hc.attempt
	hc.runNumber = attempt.slot.Load().Number
	hc.outcome, hc.answered, hc.disposition = outcomeUnread, false, dispositionEnded
	hc.taskFailed.Store(false)
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
func (hc *handlerConn) handle(ctx *fasthttp.RequestCtx) {
	if hc.emptyResponse == nil {
		hc.emptyResponse = new(fasthttp.Response)
		ctx.Response.CopyTo(hc.emptyResponse)
	}
	hc.outcome = hc.handleRequest(ctx)
	// From here on, the output of fasthttp is discarded, because the response has already been
	// sent. fasthttp adds no date: see appendResponseHeader.
	hc.answered = true
	ctx.Response.ReleaseBody(maxReusedBody)
	hc.emptyResponse.CopyTo(hc.response(ctx))
	ctx.Hijack(nil)
	ctx.HijackSetNoResponse(false)
	if cap(hc.largeBody) > maxReusedBody {
		hc.largeBody = nil
	}
}

// maxReusedBody is the largest buffer for a body, in bytes, that a handlerConn keeps for the next
// request.
const maxReusedBody = 64 << 10

// handleRequest runs the handler and sends its response. It returns the outcome.
func (hc *handlerConn) handleRequest(ctx *fasthttp.RequestCtx) handlerOutcome {
	state := hc.state
	if hc.closed.Load() {
		return outcomeNotCalled
	}
	if err := hc.setRequestBody(ctx); err != nil {
		hc.bodyDone()
		if !state.body.Unreadable {
			state.body.ClientErr = err
		}
		return outcomeNoResponse
	}
	if state.req.Body.Done() {
		hc.active.disconnect.Arm() // no goroutine reads from the client now, so a watch must detect a disconnect
	}
	hc.failure = hc.callHandler(ctx)
	hc.body.close()
	hc.bodyDone()
	if hc.failure == "" {
		hc.failure = hc.checkResponse(ctx)
	}
	isCancelled := hc.active.slot.Load().IsCancelled()
	switch {
	case isCancelled || state.body.ClientErr != nil:
		hc.discardResponse(ctx)
		return outcomeNoResponse
	case hc.failure != "":
		hc.discardResponse(ctx)
		return outcomeFailed
	}
	return hc.sendResponse(ctx)
}

// bodyDone records that the handler no longer reads the body. If a cancellation has interrupted a
// read, the client's connection is out of step and must end with this request.
func (hc *handlerConn) bodyDone() {
	hc.mu.Lock()
	wasReading := hc.mu.client != nil
	hc.mu.client = nil
	hc.mu.Unlock()
	if wasReading && hc.closed.Load() {
		hc.state.body.Unreadable = true
	}
}

// callHandler calls the handler of the app. failed is empty if the handler has returned; otherwise
// it is the reason for the error response.
func (hc *handlerConn) callHandler(ctx *fasthttp.RequestCtx) (failed string) {
	returned := false
	defer func() {
		switch panicValue := recover(); {
		case returned:
		case panicValue == nil: // runtime.Goexit: this goroutine exits, and serveFastHTTP returns
			hc.discardResponse(ctx)
			hc.active.abort()
		default:
			hc.server.appPanicked(panicValue)
			failed = detailHandlerPanicked
		}
	}()
	hc.server.options.Handler(ctx)
	returned = true
	return ""
}

// discardResponse discards a response that is not sent, and waits for the tasks that still write
// it.
func (hc *handlerConn) discardResponse(ctx *fasthttp.RequestCtx) {
	_ = hc.Close()
	hc.closeStream(ctx)
	hc.tasks.Wait()
}

// checkResponse builds the header of the response and validates it like the response of any other
// app. failed is empty if the response is valid; otherwise it is the reason for the error response.
func (hc *handlerConn) checkResponse(ctx *fasthttp.RequestCtx) (failed string) {
	if ctx.Hijacked() {
		ctx.Hijack(nil)
		return "the handler tried to take over the connection (Hijack), which an app inside the node cannot do: to upgrade connections, run the app behind --upstream"
	}
	if hc.taskFailed.Load() {
		return detailHandlerPanicked
	}
	res := hc.response(ctx)
	res.SkipBody = false
	hc.setContentLength(res)
	hc.responseHeader = appendResponseHeader(hc.responseHeader[:0], &res.Header)
	parsed := &hc.active.conn.Response
	if err := parsed.ParseHeader(hc.responseHeader, hc.state.req.Method(), hc.state.settings.MaxHeaders); err != nil {
		return fmt.Sprintf("the handler's response is malformed: %v", err)
	}
	if parsed.Status() < 200 {
		return fmt.Sprintf("the handler's response has status %d, which cannot be a final one", parsed.Status())
	}
	return ""
}

// setContentLength sets the Content-Length of a response whose body is complete. The response to a
// HEAD request without a body keeps the length that the handler has set for a GET. A stream without a
// declared length is sent in chunks.
func (hc *handlerConn) setContentLength(res *fasthttp.Response) {
	if res.BodyStream() != nil {
		if res.Header.ContentLength() < 0 {
			res.Header.SetContentLength(-1)
		}
		return
	}
	keepsLength := hc.state.req.IsHead() && len(res.Body()) == 0
	if !keepsLength {
		res.Header.SetContentLength(len(res.Body()))
	}
}

// appendResponseHeader appends the header in the format of fasthttp, but without a date. fasthttp
// updates its date in a process-wide goroutine, and the proxy sets its own date. Trailers are not
// part of the header.
func appendResponseHeader(dst []byte, header *fasthttp.ResponseHeader) []byte {
	text := string(header.StatusMessage())
	if text == "" {
		text = fasthttp.StatusMessage(header.StatusCode())
	}
	dst = appendStatusLine(dst, header.StatusCode(), text)
	trailers := header.PeekTrailerKeys()
	for name, value := range header.All() {
		if len(trailers) > 0 && containsName(trailers, name) {
			continue
		}
		isDefaultType := string(name) == fasthttp.HeaderContentType && string(value) == "text/plain; charset=utf-8"
		if isDefaultType && header.ContentLength() == 0 {
			continue // fasthttp adds its default Content-Type, although there is no body
		}
		dst = append(dst, name...)
		dst = append(dst, ": "...)
		dst = append(dst, value...)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// containsName reports whether names contains name.
func containsName(names [][]byte, name []byte) bool {
	return slices.ContainsFunc(names, func(other []byte) bool { return bytes.Equal(other, name) })
}

// response returns the response that the handler has set. After TimeoutError, a handler may still
// be running and use its Response and all other data of the request. Therefore response then marks
// hc as unusable, so that no memory of the request is reused.
func (hc *handlerConn) response(ctx *fasthttp.RequestCtx) *fasthttp.Response {
	replacement := ctx.LastTimeoutErrorResponse()
	if replacement == nil {
		return &ctx.Response
	}
	if !hc.unusable {
		hc.unusable = true
		addr := hc.RemoteAddr()
		hc.savedRemoteAddr.Store(&addr)
		hc.state.body.Buffered, hc.largeBody = nil, nil
		_ = hc.Close()
	}
	return replacement
}

// sendResponse sends the response to the client.
func (hc *handlerConn) sendResponse(ctx *fasthttp.RequestCtx) handlerOutcome {
	attempt, res := hc.active, hc.response(ctx)
	header := &attempt.conn.Response
	stream := res.BodyStream()
	if header.Has(h1.FieldShardwayHold) {
		hc.state.noteHold(header, attempt.epoch)
	}
	hc.state.server.appSilence.RecordResponse(hc.state.server.clock.Now())
	flags := uint64(inflight.ResponseBegun)
	isEventStream := stream != nil && eventrelay.IsEvents(header)
	if isEventStream {
		attempt.slot.Events.Begin(attempt.slot.Load().Number, false, false, nil)
		flags |= inflight.Events
	}
	if !attempt.slot.SetFlags(flags) { // the run was cancelled
		hc.discardResponse(ctx)
		return outcomeNoResponse
	}
	hc.state.exchange.leaveQueue()
	hc.reply.recordResponse(header)
	writer := hc.state.inbound.WriteResponseHeader(header, hc.reply.editHeaders(attempt.route, header))
	if stream != nil {
		hc.relayStream(ctx, writer, stream)
	} else {
		hc.sendBody(writer, res.Body())
	}
	return outcomeResponded
}

// sendBody sends a complete response body, waits for the tasks of the request, and ends the request.
func (hc *handlerConn) sendBody(writer *h1.Writer, body []byte) {
	var err error
	if writer.Kind() != h1.NoBody {
		_, err = writer.Write(body)
	}
	if hc.runningTasks.Load() > 0 && err == nil {
		err = writer.Flush() // send the response before waiting for the tasks
	}
	hc.tasks.Wait()
	hc.finishResponse(writer, nil, err)
}

// finishResponse ends a request whose response has been written to writer. It releases the shard before
// it flushes writer, so that a slow client does not block the shard. err is the first error of a
// write.
func (hc *handlerConn) finishResponse(writer *h1.Writer, trailers []byte, err error) {
	hc.disposition = dispositionReuse
	if hc.active.slot.Finish() != cause.None || hc.unusable {
		hc.disposition = dispositionDiscard
	}
	hc.active.release()
	hc.active.disconnect.Disarm()
	if err != nil || writer.Close(trailers) != nil {
		hc.state.exchange.connAborted = true
	}
}

// appPanicked logs a panic in the app's code. The node continues to run.
func (s *Server) appPanicked(value any) {
	s.options.Log.Error().Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg("app panicked")
}

// closeStream closes the body stream of the response. Its Close may panic.
func (hc *handlerConn) closeStream(ctx *fasthttp.RequestCtx) {
	hc.setStream(nil)
	defer func() {
		if panicValue := recover(); panicValue != nil {
			hc.server.appPanicked(panicValue)
		}
	}()
	_ = hc.response(ctx).CloseBodyStream()
}

// errHandlerTarget rejects a request target that fasthttp cannot parse.
var errHandlerTarget = h1.NewError(400, "the app's server cannot read the target")

// setRequestBody gives the handler the request body: as a stream if the handler accepts streams,
// and otherwise as a complete buffer. It omits trailers, because fasthttp would add them to the
// headers.
func (hc *handlerConn) setRequestBody(ctx *fasthttp.RequestCtx) error {
	if err := hc.parseAmbiguousTarget(ctx); err != nil {
		return err
	}
	state, req := hc.state, &ctx.Request
	switch body := &state.req.Body; {
	case body.Kind() == h1.NoBody:
	case state.body.IsFullyBuffered():
		setBufferedBody(req, state.body.Buffered)
	case hc.server.options.HandlerStreams:
		size := -1 // unknown
		if remaining := body.Remaining(); remaining >= 0 {
			size = len(state.body.Buffered) + int(remaining)
		}
		hc.setBodySource(state.inbound)
		hc.body.open(state)
		req.SetBodyStream(&hc.body, size)
	default:
		hc.setBodySource(state.inbound)
		if err := hc.readFullBody(); err != nil {
			return err
		}
		setBufferedBody(req, hc.largeBody)
	}
	return nil
}

// setBufferedBody sets the complete body of the request for the handler.
func setBufferedBody(req *fasthttp.Request, body []byte) {
	req.SetBodyRaw(body)
	req.Header.SetContentLength(len(body))
}

// parseAmbiguousTarget parses a request target that starts with //. If such a target contains ://,
// fasthttp uses the text after // as the host. The shard key may come from the host that was
// validated. Therefore parseAmbiguousTarget parses an absolute URL with that host.
func (hc *handlerConn) parseAmbiguousTarget(ctx *fasthttp.RequestCtx) error {
	target := ctx.Request.Header.RequestURI()
	if !bytes.HasPrefix(target, []byte("//")) {
		return nil
	}
	absoluteURL := slices.Concat([]byte("http://"), ctx.Request.Header.Host(), target)
	if err := ctx.URI().Parse(nil, absoluteURL); err != nil {
		return errHandlerTarget
	}
	return nil
}

// runInHandler runs an attempt in the app of this process, and sends the response.
func (runner *attemptRunner) runInHandler(attempt *attempt) decision {
	attempt.conn.Pool.MarkProven(attempt.conn)
	writer := runner.requestWriter.writeHeader(attempt)
	if _, err := runner.remainingLease(); err != nil {
		return runner.retrier.handleUnsent(attempt, err)
	}
	if runner.exchange.wantsAcceptance {
		if err := runner.reply.sendAccepted(); err != nil {
			return runner.retrier.handleBroken(attempt, err)
		}
	}
	hc, _ := attempt.conn.NetConn().(*handlerConn) // inProcess is set
	switch hc.serveRequest(runner.reply, attempt, writer) {
	case outcomeUnread:
		attempt.abort()
		return fail(problem.BadRequest, "the app's server cannot read the request")
	case outcomeNotCalled:
		return runner.retrier.handleUnsent(attempt, errCutFirst)
	case outcomeNoResponse:
		return runner.retrier.handleBroken(attempt, nil)
	case outcomeFailed:
		attempt.abort()
		runner.exchange.runAborted = true // the app may have executed the request
		return fail(problem.AppFailed, hc.failure)
	case outcomeResponded:
	}
	return done
}
