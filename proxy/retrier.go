package proxy

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"

	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/h1"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
)

// retrier decides how a request continues after an attempt that did not produce a response: with
// another attempt, a wait, or an error response.
type retrier struct {
	*requestState
	reply      reply
	slot       *slot
	disconnect *disconnectWatch
	closing    *atomic.Bool  // client.closing
	pollSince  *atomic.Int64 // connState.longPollStart
}

// handleUnsent ends an attempt whose request was not sent, or was sent but not read by the peer.
// Such a request can be retried regardless of its method, because it cannot have run.
func (retry *retrier) handleUnsent(attempt *attempt, err error) decision {
	retry.disconnect.disarm()
	retry.exchange.markNotDelivered()
	if errors.Is(err, errNoLease) {
		attempt.conn.Writer().Discard()
		attempt.cancelUnsent()
		return decision{action: actionWait, reason: route.ReasonNoLease, refusal: route.RefusedNoLease}
	}
	cancelCause := attempt.abort()
	retry.exchange.avoidStreams = retry.exchange.avoidStreams || attempt.conn.Mux != nil
	if !errors.Is(err, h1.ErrUnsolicitedData) { // a pooled connection that was already closed is not a retry
		retry.server.metrics.Retries[metrics.RetryUnsent].Add(1)
	}
	switch {
	case retry.closing.Load():
		return done
	case retry.wasReplaced(cancelCause):
		return retry.yieldToNewerRun()
	case cancelCause != causeNone || attempt.conn.Reused || attempt.conn.Mux != nil:
		return decision{action: actionRetry}
	}
	result := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true, detail: retry.server.unreachableReason(err)}
	if result.code = problem.PeerUnreachable; attempt.route.Kind == route.Local {
		result.code, result.refusal = problem.UpstreamRefused, route.RefusedNoApp
	}
	return result
}

// handleBroken ends an attempt that failed after part of the request was sent and before a response
// arrived. It returns the decision whether the request may be retried.
func (retry *retrier) handleBroken(attempt *attempt, err error) decision {
	cancelCause := attempt.abort()
	retry.exchange.avoidStreams = retry.exchange.avoidStreams || attempt.conn.Mux != nil
	if cancelCause == causeNone && errors.Is(err, errPathDead) {
		cancelCause = causePathDead
		retry.server.metrics.CountAborted(cancelCause.String(), 1)
	}
	code := connErrorCode(attempt.route.Kind)
	// Set runAborted before any decision, because this node may stop before the client has a
	// response.
	retry.exchange.runAborted = retry.exchange.runAborted || retry.exchange.safety != safeMethod || retry.closing.Load()
	var malformed *h1.Error
	switch {
	case retry.closing.Load():
		return done
	case retry.body.clientErr != nil:
		return retry.reply.rejectBody(retry.body.clientErr)
	case retry.wasReplaced(cancelCause):
		return retry.yieldToNewerRun()
	case cancelCause == causeDrainTimeout && retry.exchange.eventStream != nil:
		return retry.retryAtNextOwner(attempt)
	case cancelCause == causeDrainTimeout && retry.mayAskNextOwner(attempt):
		return retry.askNextOwner()
	case cancelCause == causeDrainTimeout:
		return fail(problem.ShardMoved, "the request was aborted because its shard moved away while it was running: it may have run")
	case cancelCause == causeLeaving:
		return retry.closeLongPoll()
	case cancelCause == causeTimeout:
		return fail(problem.UpstreamTimeout, "the app did not respond in time: the request may have run")
	case errors.As(err, &malformed):
		return fail(code, "the response is malformed: "+malformed.Reason())
	case errors.Is(err, errNotSwitched):
		return fail(code, "the response switches protocols without being asked to")
	case errors.Is(err, os.ErrDeadlineExceeded) && cancelCause == causeNone:
		return fail(code, "the connection stalled while the request was sent or while the response head was read: the request may have run")
	}
	return retry.decideRetry(attempt, code, cancelCause)
}

// decideRetry decides whether a request that may already have run is retried. Guarantee G7 permits
// this only for safe requests, and for idempotent ones within the same ownership epoch.
func (retry *retrier) decideRetry(attempt *attempt, code problem.Code, cancelCause cause) decision {
	retry.exchange.tries++
	if attempt.conn.Reused {
		retry.exchange.triesOnReusedConns++
	}
	// A response header proves that the request has run. In that case, only a safe request is
	// retried, and only once.
	methodPermits := retry.exchange.safety == safeMethod && retry.exchange.responsesBegun < 2
	if retry.exchange.safety == idempotentMethod {
		methodPermits = attempt.epoch != 0 && retry.exchange.responsesBegun == 0
		retry.exchange.idempotentRan, retry.exchange.ranEpoch = true, attempt.epoch
	}
	if detail := retry.retryDenied(attempt, cancelCause, methodPermits); detail != "" {
		if cancelCause == causeStopping {
			return fail(problem.ShardMoved, "the request was aborted because its node stops: it may have run")
		}
		return fail(code, detail)
	}
	retry.server.metrics.Retries[metrics.RetryBroken].Add(1)
	if retry.exchange.tries == 1 {
		return decision{action: actionRetry}
	}
	return decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true, code: code, detail: detailMayHaveRun}
}

// retryDenied returns the reason why a request that may have run is not retried, or "" if it is
// retried. methodPermits means that the request's method permits a retry.
func (retry *retrier) retryDenied(attempt *attempt, cancelCause cause, methodPermits bool) (detail string) {
	switch poisonous := retry.recordCrash(attempt, cancelCause); {
	case !methodPermits || !retry.body.isReplayable():
		return detailMayHaveRun
	case poisonous:
		return detailMayHaveRun + ", and another process that it was sent to before has broken, too: it is sent to no third one"
	case retry.exchange.tries >= maxTries:
		return detailMayHaveRun + ", and was sent " + strconv.Itoa(maxTries) + " times"
	case !retry.retryBudgetAllows(attempt, cancelCause):
		return detailMayHaveRun + ", and a fifth of all requests is being sent again already"
	}
	return ""
}

// retryBudgetAllows reports whether the retry budget permits another attempt. Two kinds of failures
// do not use the budget, because they do not indicate a problem in the app. First, a broken
// multiplexed session affects many requests that would otherwise have used separate connections.
// Second, a planned stop of a node is not a failure.
func (retry *retrier) retryBudgetAllows(attempt *attempt, cancelCause cause) bool {
	if cancelCause == causeStopping {
		return true
	}
	if retry.exchange.tries == 1 && attempt.conn.Mux != nil && attempt.conn.Mux.SessionDraining() && (cancelCause == causeNone || cancelCause == causePathDead) {
		return true
	}
	return retry.server.budget.Spend()
}

// handlePeerStopped ends an attempt that the owner has cancelled because its process is stopping.
// The owner's response means that the request may have run, and that it did not cause the stop.
func (retry *retrier) handlePeerStopped(attempt *attempt) decision {
	attempt.abort()
	attempt.conn.Pool.CloseIdleTo(attempt.conn.Boot)
	switch {
	case retry.closing.Load():
		return done
	case retry.body.clientErr != nil:
		return retry.reply.rejectBody(retry.body.clientErr)
	}
	return retry.decideRetry(attempt, problem.PeerUnreachable, causeShutdown)
}

// reportsNotAcquired reports whether the response means that the app has not acquired the shard.
func (retry *retrier) reportsNotAcquired(res *h1.Response) bool {
	return retry.server.options.NotAcquired != nil && !retry.exchange.Keyless && string(res.Value(headerAcquire)) == "1"
}

// handleNotAcquired ends an attempt whose shard the app has not acquired, and reports this to the
// node. The request has not run, and is retried after the app has acquired the shard. If the app
// sends the same response maxTries times, the client receives an error response.
func (retry *retrier) handleNotAcquired(attempt *attempt) decision {
	retry.exchange.markNotDelivered()
	attempt.abort()
	retry.exchange.notAcquiredCount++
	switch {
	case retry.closing.Load():
		return done
	case retry.body.clientErr != nil:
		return retry.reply.rejectBody(retry.body.clientErr)
	case retry.exchange.notAcquiredCount >= maxTries:
		return fail(problem.UpstreamBroken, "the app asks for the shard of the request again and again (Shardway-Acquire), though its acquire hook succeeds: let it note what it has acquired; the request has not run")
	}
	// If the app has acquired the shard since the request was sent, its response is outdated.
	if !retry.server.options.Cluster.Table().IsNewTo(retry.exchange.shard, attempt.generation) {
		retry.server.options.NotAcquired(retry.exchange.shard, attempt.epoch)
	}
	if !retry.body.isReplayable() {
		return fail(problem.UpstreamBroken, problem.UnheldInPart)
	}
	return decision{action: actionWait, reason: route.ReasonAcquiring, refusal: route.RefusedHeld, notAcquired: attempt.attemptEpoch}
}

// handleRefused ends an attempt that the owner has refused. No byte of the request has reached an
// app.
func (retry *retrier) handleRefused(attempt *attempt) decision {
	retry.exchange.markNotDelivered()
	res := &attempt.conn.Response
	refusal, ok := route.ParseRefusal(res.Known(h1.FieldShardwayRefused))
	ownerSheds := retry.exchange.shedByOwner(attempt)
	switch {
	case ownerSheds:
		refusal = route.RefusedBusy
	case !ok:
		refusal = route.RefusedHeld // the refusal has a reason of a newer version
	}
	committed, proposed, _ := route.ParseEpochs(res.Known(h1.FieldShardwayMap))
	if tries := triesOf(&res.Header); tries > retry.exchange.tries {
		// The request has run at the owner and was cancelled because its shard moves; see
		// askNextOwner.
		retry.notePoll()
		retry.exchange.tries = tries
	}
	retry.body.stopSending()
	retry.disconnect.disarm()
	reusable := res.Body.Drain(drainLimit) == nil && res.KeepAlive() && !retry.body.unreadable
	if !retry.body.isFullyBuffered() {
		attempt.conn.Writer().Discard() // the owner also expects that the body will not follow
	}
	if retry.slot.finish() == causeNone && reusable {
		attempt.conn.Pool.Put(attempt.conn)
	} else {
		attempt.conn.Pool.Discard(attempt.conn)
	}
	attempt.release()
	retry.server.metrics.RefusedByOwner[refusal].Add(1)
	retry.server.metrics.Retries[metrics.RetryRefused].Add(1)
	if refusal == route.RefusedStopping {
		attempt.conn.Pool.CloseIdleTo(attempt.conn.Boot)
	}
	switch {
	case retry.closing.Load():
		return done
	case retry.body.unreadable:
		return fail(problem.QueueTimeout, "the shard's owner refused the request after part of its body had been read")
	case retry.exchange.tries >= maxTries:
		return fail(problem.PeerUnreachable, detailMayHaveRun)
	case refusal == route.RefusedStopping && attempt.conn.Reused:
		return decision{action: actionRetry} // a previous process of the node may have sent the refusal
	}
	result := decision{
		action: actionWait, reason: route.ReasonRefused, refusal: refusal, backoff: true,
		committed: committed, proposed: proposed,
	}
	if refusal == route.RefusedNoApp || refusal == route.RefusedBusy {
		result.reason = route.ReasonUnreachable
	}
	pool := attempt.conn.Pool
	if refusal == route.RefusedNoApp {
		pool.Breaker.Open(backoff.ErrNoApp)
		result.condition = &pool.Breaker
		return result
	}
	pool.Breaker.OnAccepted()
	switch {
	case refusal != route.RefusedBusy:
	case retry.exchange.isResumption():
		result.condition, result.backoff = pool.UpgradeBackoff.OnRefused(0, false), false
	default:
		result.condition, result.backoff = pool.Backoff.OnRefused(retry.exchange.limitShard(), ownerSheds), false
		if ownerSheds {
			result.code, result.detail = problem.ShardBusy, detailShardInflight
		}
	}
	return result
}
