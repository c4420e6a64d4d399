package proxy

import (
	"errors"
	"time"

	"shardway/proxy/accesslog"
	"shardway/proxy/cause"
	"shardway/proxy/eventrelay"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/proxy/upstream"
)

// A response of known length up to maxHeldResponse bytes is buffered until it is complete, for up
// to maxHoldTime. Most apps write header and body separately, and buffering allows a retry if the
// app dies between the two writes. maxHeldResponse is the size of the read buffer.
const (
	maxHeldResponse = upstream.ReadBuffer
	maxHoldTime     = 25 * time.Millisecond
)

// errCutFirst reports that a run was cancelled before the first byte of its response was sent.
var errCutFirst = errors.New("proxy: cut before the answer began")

// responseRelay sends the responses of apps and owners to the client.
type responseRelay struct {
	reply
	slot            *inflight.Slot
	admission       *admission
	beforeFirstByte func() (time.Duration, error) // markResponseBegun, bound once
	webSocket       *webSocketRun                 // a started relay that continueServing must run; nil means none
}

// hasWebSocket reports whether the response has started the relay of a resumable WebSocket.
func (rr *responseRelay) hasWebSocket() bool { return rr.webSocket != nil }

// relayResponse sends a response to the client and ends the attempt. The header of the response has
// been read. If responseBegun is false, no byte of the response was sent, and the attempt has not
// ended. In that case err is the error in the response, if any. After the first byte, no other
// response is possible, so an error truncates the response.
//
// A response that has arrived completely is sent after its run has ended. The app has then finished
// the request, a cancellation cannot truncate the response, and a client that reads slowly does not
// delay a drain.
func (rr *responseRelay) relayResponse(attempt *attempt) (responseBegun bool, err error) {
	res := &attempt.conn.Response
	rr.exchange.responsesBegun++
	if err := res.Body.WaitBuffered(maxHeldResponse, rr.server.maxHoldTime); err != nil {
		return false, err
	}
	isEventStream := eventrelay.IsEvents(res)
	if isEventStream && !rr.beginEventStream(attempt) {
		return false, nil
	}
	attempt.conn.Pool.Breaker.OnAccepted()
	isContinuation := rr.exchange.isStreamResumption()
	keepAliveBefore := rr.exchange.keepAlive
	sentBefore := rr.inbound.Sent() // not Received, because another goroutine may still be sending the body to the app
	writer := rr.beginResponse(attempt, isContinuation)
	var readErr, writeErr error
	if isEventStream {
		readErr, writeErr = rr.copyEvents(attempt, writer, isContinuation)
	} else {
		readErr, writeErr = rr.copyBody(attempt, writer, isContinuation)
	}
	failed := readErr != nil || writeErr != nil
	nothingSent := !isContinuation && rr.inbound.Sent() == sentBefore
	if failed && nothingSent && !rr.slot.SetFlags(inflight.ResponseBegun) { // the run was cancelled
		writer.Discard()
		rr.cancelEvents()
		rr.exchange.keepAlive = keepAliveBefore
		return false, readErr
	}
	if !isContinuation {
		rr.recordResponse(res)
	}
	if !failed {
		rr.finish(attempt, writer)
		return true, nil
	}
	if !rr.mustResumeStream(attempt, readErr, writeErr) {
		writer.Abort()
		rr.truncateResponse(attempt, readErr)
	}
	return true, nil
}

// copyEvents copies the events of an event stream. Even while the stream is open, requests for the
// same path use separate connections.
func (rr *responseRelay) copyEvents(attempt *attempt, writer *h1.Writer, isContinuation bool) (readErr, writeErr error) {
	rr.recordSize(attempt, isContinuation, true)
	return rr.slot.Events.Copy(writer, &attempt.conn.Response.Body)
}

// beginEventStream prepares for an event stream. It returns false if the run was cancelled. At the
// owner, the connection then counts as a stream instead of an ordinary upstream connection.
func (rr *responseRelay) beginEventStream(attempt *attempt) bool {
	rr.endTotalTimeout()
	if !rr.slot.SetFlags(rr.startEventStream(attempt)) {
		rr.cancelEvents()
		return false
	}
	if attempt.route.Kind == route.Local {
		attempt.conn.Pool.Detach(attempt.conn, nil)
		rr.admission.releasePermits()
	}
	return true
}

// beginResponse writes the header of the response into the buffer of the client's connection. For a
// continuation, the client already has the header, so beginResponse writes nothing.
func (rr *responseRelay) beginResponse(attempt *attempt, isContinuation bool) *h1.Writer {
	if isContinuation {
		rr.server.metrics.Resumptions[metrics.ResumeDone].Add(1)
		return rr.inbound.Writer()
	}
	res := &attempt.conn.Response
	writer := rr.inbound.WriteResponseHeader(res, rr.editHeaders(attempt.route, res))
	if rr.isEarly(res) {
		isRefused := res.Status() >= 300
		rr.processEarlyResponse(attempt, isRefused)
	}
	return writer
}

// copyBody copies the body of a response that is not an event stream. It records whether the
// response of another node was large or slow.
func (rr *responseRelay) copyBody(attempt *attempt, writer *h1.Writer, isContinuation bool) (readErr, writeErr error) {
	body := &attempt.conn.Response.Body
	writer.SetPrecondition(rr.beforeFirstByte)
	if body.IsBuffered() {
		writer.Reserve(int(body.Remaining()))
	}
	lengthUnknown := body.Remaining() < 0
	watchDuration := lengthUnknown && attempt.conn.Pool.IsForNode() && !isContinuation
	if watchDuration {
		rr.slowResponse.Store(rr.server.largeResponses.Key(&rr.req)) // reset by the sweep if the response takes long
	}
	_, readErr, writeErr = writer.Copy(body)
	writer.SetPrecondition(nil)
	tookLong := watchDuration && rr.slowResponse.Swap(0) == 0
	rr.recordSize(attempt, isContinuation, tookLong || attempt.conn.IsLarge(body.Received()))
	return readErr, writeErr
}

// recordSize records whether a response of another node was large or slow, for later requests to the
// same path. It ignores a response that continues an event stream.
func (rr *responseRelay) recordSize(attempt *attempt, isContinuation, isLarge bool) {
	if attempt.conn.Pool.IsForNode() && !isContinuation {
		rr.server.largeResponses.Record(rr.server.largeResponses.Key(&rr.req), isLarge)
	}
}

// finish ends an attempt whose response has arrived completely. It releases the slot of the
// request, writes the end of the response to the client, and returns the connection to its pool, or
// discards it if it cannot be reused.
func (rr *responseRelay) finish(attempt *attempt, writer *h1.Writer) {
	res := &attempt.conn.Response
	requestSent := rr.body.AwaitSent() && !rr.body.Unreadable && !attempt.conn.WriteStopped()
	isReusable := requestSent && res.KeepAlive()
	if !isReusable {
		_ = attempt.conn.Close() // before release, so that the app cannot still be working on the request
	}
	cancelCause := rr.slot.Finish()
	attempt.release()
	usedAt := rr.server.clock.Now()
	attempt.conn.Pool.Backoff.OnAccepted(rr.exchange.limitShard())
	if rr.serviceSettings().MaxShardInflight > 0 {
		attempt.conn.Pool.RecordResponseEnd(attempt.conn)
	}
	// The app has finished the request, but sending the rest to a slow client may block.
	switch err := rr.close(writer, res.Body.Trailers()); {
	case errors.Is(err, h1.ErrUnsent):
		rr.exchange.endUnsent = true
	case err != nil:
		rr.exchange.connAborted = true
	}
	rr.body.StopSending()
	attempt.disconnect.Disarm()
	rr.logDroppedTrailers(&res.Body, "response")
	if !isReusable || cancelCause != cause.None {
		attempt.conn.Pool.Discard(attempt.conn)
		return
	}
	if attempt.bodyHeldBack {
		attempt.conn.Writer().Discard() // the owner does not expect the body either
	}
	attempt.conn.Pool.PutUsedAt(attempt.conn, usedAt)
}

// processEarlyResponse processes a final response that arrives before the whole request body has
// been sent. isRefused is set if the app refused the request, so that no more of the body is sent
// to it.
func (rr *responseRelay) processEarlyResponse(attempt *attempt, isRefused bool) {
	if rr.body.BeginDiscarding() {
		attempt.disconnect.Disarm() // another goroutine reads from the client again
		rr.body.DiscardRest()
		return
	}
	if isRefused {
		attempt.conn.StopWrite()
	}
}

// close ends the response. For the last response of a connection, it also closes the sending side
// in the same step.
func (rr *responseRelay) close(writer *h1.Writer, trailers []byte) error {
	isLastResponse := !rr.exchange.keepAlive && !rr.body.IsSending() && rr.isLastRequest()
	if isLastResponse {
		return writer.CloseLast(trailers)
	}
	return writer.Close(trailers)
}

// markResponseBegun records that the response of the run has begun. It is the precondition of the
// write that sends the first byte to the client. It returns an error if the run was cancelled. The
// returned duration is always zero: no additional time limit for the write.
func (rr *responseRelay) markResponseBegun() (time.Duration, error) {
	if !rr.slot.SetFlags(inflight.ResponseBegun) {
		return 0, errCutFirst
	}
	return 0, nil
}

// recordResponse records that a response of an app is sent to the client.
func (reply reply) recordResponse(res *h1.Response) {
	reply.exchange.account.RecordResponse(res.Status(), res, reply.exchange.lastRoute)
	reply.server.metrics.CountResponse(reply.exchange.lastRoute, res.Status())
}

// truncateResponse ends an attempt whose response was truncated, because of readErr or because
// sending it has failed.
func (reply reply) truncateResponse(attempt *attempt, readErr error) {
	runNumber := attempt.slot.Load().Number
	cancelCause := attempt.abort()
	endedBetweenEvents := errors.Is(readErr, eventrelay.ErrEnded)
	switch {
	case cancelCause != cause.None: // counted by the goroutine that cancelled the run
	case endedBetweenEvents && attempt.slot.Events.IsResumable(runNumber): // another owner resumes the stream, so it does not count as aborted
	case endedBetweenEvents:
		reply.server.metrics.CountAborted(cause.ShardMoved.String(), 1)
	case readErr != nil:
		reply.server.metrics.TruncatedResponses.Add(1)
	}
	reply.exchange.connAborted, reply.exchange.account.Code = true, accesslog.Aborted
}
