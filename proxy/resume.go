package proxy

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/accesslog"
	"shardway/proxy/cause"
	"shardway/proxy/eventrelay"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
)

// permitsResume reports whether the app permits resumption and resumption is possible: the request
// can be repeated unchanged, and its shard has an owner.
func (rr *responseRelay) permitsResume(attempt *attempt) bool {
	res := &attempt.conn.Response
	appPermits := strings.EqualFold(string(res.Known(h1.FieldShardwayStream)), eventrelay.ValueResume) && eventrelay.IsResumableResponse(res)
	hasOwner := !rr.exchange.Keyless && !attempt.conn.InProcess
	return appPermits && hasOwner && rr.isRepeatableGet()
}

// isRepeatableGet reports whether the request is a GET for a complete resource that can be sent again
// unchanged.
func (rr *responseRelay) isRepeatableGet() bool {
	isPlainGet := string(rr.req.Method()) == "GET" && rr.req.Body.Kind() == h1.NoBody
	return isPlainGet && !rr.req.RequestsUpgrade() && rr.req.Value("Range") == nil
}

// startEventStream starts an event stream, resumable or not, and returns the flags for its run.
func (rr *responseRelay) startEventStream(attempt *attempt) uint64 {
	rr.escaped = true
	isResumable := rr.permitsResume(attempt)
	events, runNumber := &rr.slot.Events, rr.slot.Load().Number
	isIngress := rr.ingress == ""
	switch {
	case rr.exchange.eventStream != nil:
		events.Resume(runNumber, isResumable)
	case isResumable && isIngress:
		rr.exchange.eventStream = &eventrelay.Stream{}
		rr.server.metrics.ResumableStreams.Add(1)
		events.Begin(runNumber, isResumable, false, &rr.exchange.eventStream.Buffer)
	default:
		isResumed := rr.exchange.senderResumeCount > 0
		events.Begin(runNumber, isResumable, isResumed, nil)
		return inflight.ResponseBegun | inflight.Events
	}
	rr.exchange.eventStream.BeginResponse(attempt.epoch)
	return inflight.ResponseBegun | inflight.Events | inflight.Resumable
}

// cancelEvents discards the stream of a first response that has not begun.
func (rr *responseRelay) cancelEvents() {
	isFirstResponse := !rr.exchange.isStreamResumption()
	if rr.exchange.eventStream != nil && isFirstResponse {
		rr.exchange.eventStream = nil
		rr.server.metrics.ResumableStreams.Add(-1)
	}
}

// mustResumeStream decides what follows for a stream whose response was truncated. If it returns
// true, the stream must be resumed, and the attempt has ended. The client has then received only
// complete events, unless an event exceeds the buffer.
func (rr *responseRelay) mustResumeStream(attempt *attempt, readErr, writeErr error) bool {
	stream := rr.exchange.eventStream
	if stream == nil || writeErr != nil || rr.server.lifecycle.IsStopping() {
		return false
	}
	switch rr.slot.Load().Cause { //nolint:exhaustive // all other causes permit a resumption
	case cause.ClientGone, cause.Shutdown, cause.Leaving:
		return false
	}
	if !rr.canResumeAfter(readErr) {
		rr.server.metrics.Resumptions[metrics.ResumeImpossible].Add(1)
		return false
	}
	if rr.inbound.Writer().Flush() != nil {
		return false
	}
	attempt.abort()
	stream.Ended = true
	return true
}

// canResumeAfter reports whether the stream can be resumed after readErr. The app must have sent
// event IDs, the client must not have received a partial event, and the response must be
// well-formed.
func (rr *responseRelay) canResumeAfter(readErr error) bool {
	hasEventIDs := rr.slot.Events.CanResume()
	sentPartOfEvent := rr.exchange.eventStream.Buffer.InEvent()
	var malformed *h1.Error
	return hasEventIDs && !sentPartOfEvent && !errors.As(readErr, &malformed)
}

// brokeAtOwner reports whether the connection to the app broke at another node before a response.
// That node does not retry a resume request itself, because a retry needs a higher number.
func brokeAtOwner(attempt *attempt) bool { return isOwnerProblem(attempt, problem.UpstreamBroken) }

// drainedAtOwner reports whether another node has cancelled the request before its app responded,
// because the shard moves or the node is leaving.
func drainedAtOwner(attempt *attempt) bool { return isOwnerProblem(attempt, problem.ShardMoved) }

// isOwnerProblem reports whether another node has responded with a problem document of its own, with
// the given code.
func isOwnerProblem(attempt *attempt, code problem.Code) bool {
	return attempt.route.Kind == route.Remote && string(attempt.conn.Response.Known(h1.FieldShardwayError)) == string(code)
}

// decideAfterUnansweredResumption ends an attempt to resume a stream for which another node
// reported an error instead of its app's response.
func (retry *retrier) decideAfterUnansweredResumption(attempt *attempt) decision {
	retry.exchange.eventStream.CountRequest()
	if brokeAtOwner(attempt) {
		return retry.decideAfterBreak(attempt, nil)
	}
	attempt.abort()
	if retry.closing.Load() {
		return done
	}
	return retry.retryAtNextOwner(attempt)
}

// retryAtNextOwner sends a resume request to the next owner after the app did not respond within
// drain-timeout, so that two planned moves have affected the stream. If an owner reports this again
// under the same epoch, the shard has not moved, so TryResume limits the number of attempts.
func (retry *retrier) retryAtNextOwner(attempt *attempt) decision {
	stream := retry.exchange.eventStream
	if !stream.TryResume(attempt.epoch, time.Now()) {
		retry.reply.endStream(metrics.ResumeImpossible, "its requests were drained too often at one owner")
		return done
	}
	stream.Epoch = attempt.epoch
	retry.resetRetries()
	return decision{action: actionRetry}
}

// acceptsResumption checks the response to a resume request. It returns false if the response
// cannot continue the stream, which then ends.
func (retry *retrier) acceptsResumption(attempt *attempt) bool {
	stream := retry.exchange.eventStream
	stream.CountRequest()
	var detail string
	switch {
	case !eventrelay.IsResumableResponse(&attempt.conn.Response):
		detail = "the response to the request to resume is not a resumable event stream: status " + strconv.Itoa(attempt.conn.Response.Status())
	case !stream.TryResume(attempt.epoch, time.Now()):
		detail = "the stream was interrupted too often at one owner"
	default:
		return true
	}
	attempt.abort()
	retry.reply.endStream(metrics.ResumeImpossible, detail)
	return false
}

// nextStream prepares the exchange for the request that resumes the stream.
func (router *router) nextStream() {
	exchange := &router.exchange
	exchange.eventStream.Ended = false
	exchange.account.UpstreamConn = exchange.eventStream.Responses()
	writesAccessLog := !exchange.account.StartedAt.IsZero()
	if writesAccessLog {
		accessLine{router.requestState, router.keys}.write()
		exchange.account.OpenNext(router.traffic())
	}
	router.retrier.resetRetries()
}

// resetRetries gives the next request its own number of attempts and the full QueueWait.
func (retry *retrier) resetRetries() {
	retry.resetWait()
	exchange := &retry.exchange
	exchange.tries, exchange.reusedConnAttempts, exchange.responsesBegun, exchange.notAcquiredCount = 0, 0, 0, 0
	exchange.runAborted, exchange.lastCrash = false, nil
}

// resetWait gives the next request the full QueueWait.
func (retry *retrier) resetWait() {
	exchange := &retry.exchange
	exchange.observeWait(retry.server.metrics)
	exchange.hasWaited, exchange.waitTime, exchange.deadline, exchange.lastPause = false, 0, time.Time{}, 0
}

// endStream ends a stream that cannot be resumed. The client receives a truncated response.
func (reply reply) endStream(outcome metrics.ResumeOutcome, detail string) {
	reply.server.metrics.Resumptions[outcome].Add(1)
	reply.server.options.Log.Debug().Uint32("shard", uint32(reply.exchange.shard)).Str("detail", detail).Msg("event stream not resumed")
	reply.inbound.Writer().Abort()
	reply.exchange.connAborted, reply.exchange.account.Code = true, accesslog.Aborted
}
