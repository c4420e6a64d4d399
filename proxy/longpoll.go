package proxy

import (
	"time"

	"shardway/proxy/accesslog"
	"shardway/proxy/inflight"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
)

// A long poll is a request with a safe method (GET, HEAD or OPTIONS) whose response has not begun
// within DrainTimeout after the end of its body. A move or shutdown does not wait any longer for
// such a request, but must not cause an error for its client either.
//
// When the shard moves, the request is sent to the next owner. When the node stops, the connection
// is closed like an idle one, so that the client retries at another node. Clients retry only if the
// connection has already carried a response (RFC 9112 section 9.3.1). On a new connection, a long
// poll may therefore continue until ShutdownTimeout.

// isLongPoll reports whether the run of a client is a long poll whose connection may be closed. now is
// the time of the sweep. Only the sweeping goroutine calls it.
func isLongPoll(c *client, current inflight.Run, now, drainTimeout time.Duration) bool {
	clientMayRepeat := c.ingress == "" && c.carriedRequest.Load() && current.IsRepeatable()
	if !clientMayRepeat {
		return false
	}
	requestIsIncomplete := c.body.IsBeingRead()
	clientHasResponse := c.session.Load() != nil // from an earlier upstream connection of its WebSocket
	if requestIsIncomplete || clientHasResponse {
		return false
	}
	return now-longPollWaitStart(c) >= drainTimeout
}

// longPollWaitStart returns when the client began to wait for the response. That is when the sweep
// first saw the run or, if the request was sent again because its shard has moved, at the first
// attempt. The app cannot respond before it has the body.
func longPollWaitStart(c *client) time.Duration {
	waitStart := c.runSeenAt
	if firstAttempt := time.Duration(c.longPollStart.Load()); firstAttempt != 0 {
		waitStart = min(waitStart, firstAttempt)
	}
	bodyEnd := c.body.LastReadAt()
	return max(waitStart, bodyEnd)
}

// closeLongPoll closes the connection of a long poll without a response, because the node stops. If
// the request resumes an event stream, its client already has a response and sees a truncated
// stream.
func (retry *retrier) closeLongPoll() decision {
	if retry.exchange.eventStream != nil {
		retry.reply.endStream(metrics.ResumeTimedOut, "the node stops")
		return done
	}
	retry.exchange.connAborted, retry.exchange.account.Code = true, accesslog.Aborted
	return done
}

// maySendToNextOwner reports whether a request that was cancelled because its shard moves may be
// sent to the next owner. The method must be safe, and no byte of a response may have been sent to
// the client. In addition, the table must show that the shard has left this owner, and another
// attempt must be permitted.
func (retry *retrier) maySendToNextOwner(attempt *attempt) bool {
	if retry.exchange.eventStream != nil || retry.exchange.isResumption() {
		return false // resumed streams and WebSockets have their own rules
	}
	isSafe := retry.exchange.safety == safeMethod && !retry.exchange.Keyless
	if !isSafe || !retry.body.IsReplayable() {
		return false
	}
	if retry.exchange.responsesBegun > 1 || retry.exchange.tries+1 >= maxTries {
		return false
	}
	dest := retry.server.options.Cluster.Table().Route(retry.exchange.shard)
	stillOwner := dest.Kind == route.Local && dest.Epoch == attempt.epoch
	return !stillOwner
}

// sendToNextOwner returns the decision to send the request to the next owner of its shard. A planned
// move is not a failure, so the retry does not use the retry budget.
func (retry *retrier) sendToNextOwner() decision {
	retry.recordLongPoll()
	retry.exchange.tries++
	retry.server.metrics.Retries[metrics.RetryMoved].Add(1)
	return decision{action: actionRetry}
}

// recordLongPoll records that a long poll is sent to another owner. Its time at the previous owner
// does not count toward its waiting time.
func (retry *retrier) recordLongPoll() {
	if retry.ingress == "" && retry.longPollStart.Load() == 0 {
		retry.longPollStart.Store(int64(retry.exchange.startedAt))
	}
	retry.resetWait()
}
