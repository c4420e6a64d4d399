package inproc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"

	"shardway/proxy/cause"
	"shardway/proxy/eventrelay"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
)

// errDirectWrite is returned to a handler that writes to the connection instead of its Response.
var errDirectWrite = errors.New("proxy: handlers may not write to the connection: set the Response instead")

// Outcome is the result of a request for an app that runs in this process.
type Outcome uint8

// The outcomes.
const (
	OutcomeUnread     Outcome = iota // fasthttp could not read the header
	OutcomeNotCalled                 // the run was cancelled before the handler was called
	OutcomeNoResponse                // the run was cancelled, the client disconnected, or the request body broke off before the response began
	OutcomeFailed                    // the app failed; Result.Failure contains the reason
	OutcomeResponded                 // a response was sent completely, and the run has ended
	OutcomeRejected                  // the handler has not executed the request; see Pipeline.RejectsRequest
	OutcomeTruncated                 // part of a response was sent
)

// Result describes a request that Conn.Serve has run.
type Result struct {
	Outcome Outcome
	Failure string // for OutcomeFailed: the detail of the error response
	// Reusable is set, with OutcomeResponded, if the Conn can carry another request.
	Reusable bool
	// Err is set for OutcomeResponded and OutcomeTruncated: the error that kept the client from
	// receiving the whole response.
	Err error
}

// Serve runs the handler for a request, and sends the response. header is the header that the
// handler receives; call describes the request. The request counts as in flight until the handler
// and all its Tasks have ended, even if the client disconnects earlier.
//
// With OutcomeResponded the run has already ended; with any other outcome, the caller must end it.
func (conn *Conn) Serve(call *Call, header []byte) Result {
	conn.call, conn.runNumber = *call, call.Slot.Load().Number
	conn.result, conn.answered = Result{Outcome: OutcomeUnread}, false
	conn.taskFailed.Store(false)
	conn.serveFastHTTP(header)
	return conn.result
}

// detailHandlerPanicked is the detail of the error response after a panic of the handler.
const detailHandlerPanicked = "the app's handler panicked"

// handle is the handler of the fasthttp.Server. It runs the handler of the app, sends the response
// to the client, and resets the RequestCtx for reuse.
func (conn *Conn) handle(ctx *fasthttp.RequestCtx) {
	if conn.emptyResponse == nil {
		conn.emptyResponse = new(fasthttp.Response)
		ctx.Response.CopyTo(conn.emptyResponse)
	}
	conn.result.Outcome = conn.handleRequest(ctx)
	// From here on, the output of fasthttp is discarded, because the response has already been
	// sent. fasthttp adds no date: see appendResponseHeader.
	conn.answered = true
	ctx.Response.ReleaseBody(maxReusedBody)
	conn.emptyResponse.CopyTo(conn.response(ctx))
	ctx.Hijack(nil)
	ctx.HijackSetNoResponse(false)
	if cap(conn.bodyBuf) > maxReusedBody {
		conn.bodyBuf = nil
	}
}

// maxReusedBody is the maximum size in bytes of the body buffer that a Conn keeps for the next
// request.
const maxReusedBody = 64 << 10

// handleRequest runs the handler and sends its response. It returns the outcome.
func (conn *Conn) handleRequest(ctx *fasthttp.RequestCtx) Outcome {
	call := &conn.call
	if conn.closed.Load() {
		return OutcomeNotCalled
	}
	if err := conn.setRequestBody(ctx); err != nil {
		conn.recordBodyEnd()
		if !call.Body.Unreadable {
			call.Body.ClientErr = err
		}
		return OutcomeNoResponse
	}
	if call.Request.Body.Done() {
		call.Disconnect.Arm() // no goroutine reads from the client now, so a watch must detect a disconnect
	}
	conn.result.Failure = conn.callHandler(ctx)
	conn.body.close()
	conn.recordBodyEnd()
	if conn.result.Failure == "" {
		conn.result.Failure = conn.checkResponse(ctx)
	}
	isCancelled := call.Slot.Load().IsCancelled()
	switch {
	case isCancelled || call.Body.ClientErr != nil:
		conn.discardResponse(ctx)
		return OutcomeNoResponse
	case conn.result.Failure != "":
		conn.discardResponse(ctx)
		return OutcomeFailed
	}
	return conn.sendResponse(ctx)
}

// recordBodyEnd records that the handler no longer reads the body. If a cancellation interrupted a
// read, the client's connection is out of sync and must end with this request.
func (conn *Conn) recordBodyEnd() {
	conn.mu.Lock()
	wasReading := conn.mu.client != nil
	conn.mu.client = nil
	conn.mu.Unlock()
	if wasReading && conn.closed.Load() {
		conn.call.Body.Unreadable = true
	}
}

// callHandler calls the handler of the app. failed is empty if the handler has returned; otherwise
// it is the reason for the error response.
func (conn *Conn) callHandler(ctx *fasthttp.RequestCtx) (failed string) {
	returned := false
	defer func() {
		switch panicValue := recover(); {
		case returned:
		case panicValue == nil: // runtime.Goexit: this goroutine exits, and serveFastHTTP returns
			conn.discardResponse(ctx)
			conn.call.Pipeline.Abort()
		default:
			conn.app.logPanic(panicValue)
			failed = detailHandlerPanicked
		}
	}()
	conn.app.Handler(ctx)
	returned = true
	return ""
}

// discardResponse discards an unsent response, and waits for the tasks that are still writing it.
func (conn *Conn) discardResponse(ctx *fasthttp.RequestCtx) {
	_ = conn.Close()
	conn.closeStream(ctx)
	conn.tasks.Wait()
}

// checkResponse builds the header of the response and validates it like the response of any other
// app. failed is empty if the response is valid; otherwise it is the reason for the error response.
func (conn *Conn) checkResponse(ctx *fasthttp.RequestCtx) (failed string) {
	if ctx.Hijacked() {
		ctx.Hijack(nil)
		return "the handler tried to take over the connection (Hijack), which an app inside the node cannot do: to upgrade connections, run the app behind --upstream"
	}
	if conn.taskFailed.Load() {
		return detailHandlerPanicked
	}
	res := conn.response(ctx)
	res.SkipBody = false
	conn.setContentLength(res)
	conn.responseHeader = appendResponseHeader(conn.responseHeader[:0], &res.Header)
	parsed := conn.call.Response
	if err := parsed.ParseHeader(conn.responseHeader, conn.call.Request.Method(), conn.call.MaxHeaders); err != nil {
		return fmt.Sprintf("the handler's response is malformed: %v", err)
	}
	if parsed.Status() < 200 {
		return fmt.Sprintf("the handler's response has status %d, which cannot be a final one", parsed.Status())
	}
	return ""
}

// setContentLength sets the Content-Length of a response whose body is complete. The response to a
// HEAD request without a body keeps the length that the handler has set for a GET. A stream of
// unknown length is sent in chunks.
func (conn *Conn) setContentLength(res *fasthttp.Response) {
	if res.BodyStream() != nil {
		if res.Header.ContentLength() < 0 {
			res.Header.SetContentLength(-1)
		}
		return
	}
	keepsLength := conn.call.Request.IsHead() && len(res.Body()) == 0
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
	dst = h1.AppendStatusLine(dst, header.StatusCode(), text)
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
// be running and use its Response and all other data of the request. In that case response marks
// conn as unusable, so that no memory of the request is reused.
func (conn *Conn) response(ctx *fasthttp.RequestCtx) *fasthttp.Response {
	replacement := ctx.LastTimeoutErrorResponse()
	if replacement == nil {
		return &ctx.Response
	}
	if !conn.unusable {
		conn.unusable = true
		addr := conn.RemoteAddr()
		conn.savedRemoteAddr.Store(&addr)
		conn.call.Body.Buffered, conn.bodyBuf = nil, nil
		_ = conn.Close()
	}
	return replacement
}

// sendResponse sends the response to the client.
func (conn *Conn) sendResponse(ctx *fasthttp.RequestCtx) Outcome {
	call, res := &conn.call, conn.response(ctx)
	stream := res.BodyStream()
	call.Pipeline.ResponseReady(call.Response)
	if call.Pipeline.RejectsRequest(call.Response) {
		conn.discardResponse(ctx)
		return OutcomeRejected
	}
	flags := uint64(inflight.ResponseBegun)
	isEventStream := stream != nil && eventrelay.IsEvents(call.Response)
	if isEventStream {
		call.Slot.Events.Begin(call.Slot.Load().Number, false, false, nil)
		flags |= inflight.Events
	}
	if !call.Slot.SetFlags(flags) { // the run was cancelled
		conn.discardResponse(ctx)
		return OutcomeNoResponse
	}
	writer := call.Pipeline.BeginResponse(call.Response)
	if stream != nil {
		return conn.relayStream(ctx, writer, stream)
	}
	conn.sendBody(writer, res.Body())
	return OutcomeResponded
}

// sendBody sends a complete response body, waits for the tasks of the request, and ends the request.
func (conn *Conn) sendBody(writer *h1.Writer, body []byte) {
	var err error
	if writer.Kind() != h1.NoBody {
		_, err = writer.Write(body)
	}
	if conn.runningTasks.Load() > 0 && err == nil {
		err = writer.Flush() // send the response before waiting for the tasks
	}
	conn.tasks.Wait()
	conn.finishResponse(writer, nil, err)
}

// finishResponse ends a request whose response has been written to writer. It releases the shard before
// it flushes writer, so that a slow client does not block the shard. err is the first error of a
// write.
func (conn *Conn) finishResponse(writer *h1.Writer, trailers []byte, err error) {
	call := &conn.call
	wasCancelled := call.Slot.Finish() != cause.None
	conn.result.Reusable = !wasCancelled && !conn.unusable
	call.Pipeline.Release()
	call.Disconnect.Disarm()
	if err == nil {
		err = writer.Close(trailers)
	}
	conn.result.Err = err
}

// closeStream closes the body stream of the response. Its Close may panic.
func (conn *Conn) closeStream(ctx *fasthttp.RequestCtx) {
	conn.setStream(nil)
	defer func() {
		if panicValue := recover(); panicValue != nil {
			conn.app.logPanic(panicValue)
		}
	}()
	_ = conn.response(ctx).CloseBodyStream()
}

// errHandlerTarget rejects a request target that fasthttp cannot parse.
var errHandlerTarget = h1.NewError(400, "the app's server cannot read the target")

// setRequestBody gives the handler the request body: as a stream if the handler accepts streams,
// and otherwise as a complete buffer. It omits trailers, because fasthttp would add them to the
// headers.
func (conn *Conn) setRequestBody(ctx *fasthttp.RequestCtx) error {
	if err := conn.parseAmbiguousTarget(ctx); err != nil {
		return err
	}
	call, req := &conn.call, &ctx.Request
	switch body := &call.Request.Body; {
	case body.Kind() == h1.NoBody:
	case call.Body.IsFullyBuffered():
		setBufferedBody(req, call.Body.Buffered)
	case conn.app.StreamBodies:
		size := -1 // unknown
		if remaining := body.Remaining(); remaining >= 0 {
			size = len(call.Body.Buffered) + int(remaining)
		}
		conn.setBodySource(call.Client)
		conn.body.open(call)
		req.SetBodyStream(&conn.body, size)
	default:
		conn.setBodySource(call.Client)
		if err := conn.readFullBody(); err != nil {
			return err
		}
		setBufferedBody(req, conn.bodyBuf)
	}
	return nil
}

// setBufferedBody sets the complete body of the request for the handler.
func setBufferedBody(req *fasthttp.Request, body []byte) {
	req.SetBodyRaw(body)
	req.Header.SetContentLength(len(body))
}

// parseAmbiguousTarget parses a request target that starts with //. If such a target contains ://,
// fasthttp uses the text after // as the host. Since the shard key may come from the validated
// host, parseAmbiguousTarget parses an absolute URL with that host instead.
func (conn *Conn) parseAmbiguousTarget(ctx *fasthttp.RequestCtx) error {
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
