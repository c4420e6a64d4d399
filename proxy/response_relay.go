package proxy

import (
	"errors"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
)

// A response of known length up to maxHeldResponse bytes is buffered until it is complete, for up
// to maxHoldTime. Most apps write header and body separately. If an app dies between the two
// writes, the request can then still be retried. maxHeldResponse is the size of the read buffer.
const (
	maxHeldResponse = upstreamRead
	maxHoldTime     = 25 * time.Millisecond
)

// errCutFirst reports a run that was cancelled before the first byte of its response was sent.
var errCutFirst = errors.New("proxy: cut before the answer began")

// responseRelay sends responses of apps and owners to the client.
type responseRelay struct {
	reply
	slot            *slot
	beforeFirstByte func() (time.Duration, error) // markResponseBegun, bound once
	webSocket       *webSocketRelay               // a relay that has started and that continueServing must run; nil means none
}

// hasWebSocket reports whether the response has started the relay of a resumable WebSocket.
func (rr *responseRelay) hasWebSocket() bool { return rr.webSocket != nil }

// relayResponse sends a response to the client and ends the attempt. The header of the response has
// been read. If began is false, no byte of the response was sent, and the attempt has not ended.
// err is then the error in the response, if there is one. After the first byte, no other response
// is possible, so an error truncates the response.
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
	streams := isEvents(res)
	if streams {
		if !rr.slot.setFlags(rr.startEventStream(attempt)) {
			rr.cancelEvents()
			return false, nil
		}
		if attempt.route.Kind == route.Local {
			attempt.conn.Pool.Detach(attempt.conn, nil)
		}
	}
	attempt.conn.Pool.Breaker.OnAccepted()
	before, reusable := rr.conn.Sent(), rr.exchange.keepAlive
	writer, further := rr.conn.Writer(), rr.exchange.isStreamResumption()
	if further {
		rr.server.metrics.Resumptions[metrics.ResumeDone].Add(1)
	} else {
		writer = rr.conn.WriteResponseHeader(res, rr.editHeaders(attempt.route, res))
		if rr.isEarly(res) {
			rr.body.handleEarlyResponse(attempt, res.Status() >= 300)
		}
	}
	var readErr, writeErr error
	if streams {
		rr.recordSize(attempt, further, true) // before the stream ends, because other requests for the path must not wait for that
		readErr, writeErr = rr.slot.events.copy(writer, &res.Body)
	} else {
		writer.SetPrecondition(rr.beforeFirstByte)
		if res.Body.IsBuffered() {
			writer.Reserve(int(res.Body.Remaining()))
		}
		isOpen := attempt.conn.Pool.IsForNode() && !further && res.Body.Remaining() < 0
		if isOpen {
			rr.slowResponse.Store(rr.server.largeResponses.Key(&rr.req))
		}
		_, readErr, writeErr = writer.Copy(&res.Body)
		writer.SetPrecondition(nil)
		tookLong := isOpen && rr.slowResponse.Swap(0) == 0
		rr.recordSize(attempt, further, tookLong || attempt.conn.IsLarge(res.Body.Received()))
	}
	failed := readErr != nil || writeErr != nil
	if failed && !further && rr.conn.Sent() == before && !rr.slot.setFlags(slotResponseBegun) {
		writer.Discard() // no byte was sent to the client
		rr.cancelEvents()
		rr.exchange.keepAlive = reusable
		return false, readErr
	}
	if !further {
		rr.recordResponse(res)
	}
	if failed {
		if rr.mustResumeStream(attempt, readErr, writeErr) {
			return true, nil
		}
		writer.Abort()
		rr.truncateResponse(attempt, readErr)
		return true, nil
	}
	rr.finish(attempt, writer)
	return true, nil
}

// recordSize records whether a response of another node was large, for later requests to the same path.
// It ignores the response to a request to resume a stream.
func (rr *responseRelay) recordSize(attempt *attempt, further, large bool) {
	if attempt.conn.Pool.IsForNode() && !further {
		rr.server.largeResponses.Record(rr.server.largeResponses.Key(&rr.req), large)
	}
}

// finish ends an attempt whose response has arrived completely.
func (rr *responseRelay) finish(attempt *attempt, writer *h1.Writer) {
	res := &attempt.conn.Response
	sent := rr.body.awaitSent() && !rr.body.unreadable && !attempt.conn.WriteStopped()
	if !sent || !res.KeepAlive() {
		_ = attempt.conn.Close() // before release, so that the app cannot still be working on the request
	}
	cancelCause := rr.slot.finish()
	attempt.release()
	last := rr.server.clock.Now()
	attempt.conn.Pool.Backoff.OnAccepted(rr.exchange.limitShard())
	if rr.settings.MaxShardInflight > 0 {
		attempt.conn.Pool.ResponseCompleted(attempt.conn)
	}
	// The app has finished the request. Sending the rest to a slow client may block.
	switch err := rr.close(writer, res.Body.Trailers()); {
	case errors.Is(err, h1.ErrUnsent):
		rr.exchange.endUnsent = true
	case err != nil:
		rr.exchange.connAborted = true
	}
	rr.body.stopSending()
	attempt.disconnect.disarm()
	rr.trailersDropped(&res.Body, "response")
	if cancelCause == causeNone && sent && res.KeepAlive() {
		if attempt.bodyOnDemand {
			attempt.conn.Writer().Discard() // the owner also expects that the body will not follow
		}
		attempt.conn.Pool.PutUsedAt(attempt.conn, last)
	} else {
		attempt.conn.Pool.Discard(attempt.conn)
	}
}

// close ends the response. For the last response of a connection, it also closes the sending side
// in the same step.
func (rr *responseRelay) close(writer *h1.Writer, trailers []byte) error {
	if !rr.exchange.keepAlive && !rr.body.sending && rr.isLastRequest() {
		return writer.CloseLast(trailers)
	}
	return writer.Close(trailers)
}

// markResponseBegun marks the run as answered. It is called right before the first byte is sent to the
// client. It returns an error if the run was cancelled.
func (rr *responseRelay) markResponseBegun() (time.Duration, error) {
	if !rr.slot.setFlags(slotResponseBegun) {
		return 0, errCutFirst
	}
	return 0, nil
}

// recordResponse records that a response of an app is sent to the client.
func (r reply) recordResponse(res *h1.Response) {
	r.exchange.account.recordResponse(res.Status(), res, r.exchange.lastRoute)
	r.server.metrics.CountResponse(r.exchange.lastRoute, res.Status())
}

// truncateResponse ends an attempt whose response was truncated.
func (r reply) truncateResponse(attempt *attempt, readErr error) {
	runNumber := attempt.slot.load().number
	switch cancelCause := attempt.abort(); {
	case cancelCause != causeNone:
	case errors.Is(readErr, errStreamEnded) && attempt.slot.events.isResumable(runNumber): // another owner resumes the stream, so it is not treated as aborted
	case errors.Is(readErr, errStreamEnded):
		r.server.metrics.CountAborted(causeShardMoved.String(), 1)
	case readErr != nil:
		r.server.metrics.TruncatedResponses.Add(1)
	}
	r.exchange.connAborted, r.exchange.account.code = true, accessAborted
}
