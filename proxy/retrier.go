package proxy

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"

	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/cause"
	"shardway/proxy/connlife"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/proxy/upstream"
)

// retrier decides how a request continues after an attempt that did not produce a response: with
// another attempt, a wait, or an error response.
type retrier struct {
	*requestState
	reply         reply
	slot          *inflight.Slot
	disconnect    *connlife.DisconnectWatch
	closing       *atomic.Bool  // client.closing
	longPollStart *atomic.Int64 // connState.longPollStart
}

// decideAfterSendFailure ends an attempt whose request was not sent, or not read by the peer. Such
// a request cannot have run, so it can be retried regardless of its method.
func (retry *retrier) decideAfterSendFailure(attempt *attempt, err error) decision {
	retry.disconnect.Disarm()
	retry.exchange.markNotDelivered()
	if errors.Is(err, errNoLease) {
		attempt.conn.Writer().Discard()
		attempt.cancelUnsent()
		return decision{action: actionWait, reason: route.ReasonNoLease, refusal: route.RefusedNoLease}
	}
	cancelCause := attempt.abort()
	retry.avoidStreamsAfter(attempt)
	if !errors.Is(err, h1.ErrUnsolicitedData) { // using up a stale pooled connection does not count as a retry
		retry.server.metrics.Retries[metrics.RetryUnsent].Add(1)
	}
	switch {
	case retry.closing.Load():
		return done
	case retry.wasReplaced(cancelCause):
		return retry.yieldToNewerRun()
	case cancelCause != cause.None || attempt.conn.Reused || attempt.conn.Mux != nil:
		return decision{action: actionRetry}
	}
	return retry.waitForNewConn(attempt.route.Kind, err)
}

// waitForNewConn returns the decision for a request that could not be sent on a new connection,
// because of err. The destination is probably down, so the request waits before it is retried.
func (retry *retrier) waitForNewConn(destination route.Kind, err error) decision {
	result := decision{
		action: actionWait, reason: route.ReasonUnreachable, backoff: true,
		code: problem.PeerUnreachable, detail: upstream.UnreachableReason(err, &retry.server.options.Log),
	}
	if destination == route.Local {
		result.code, result.refusal = problem.UpstreamRefused, route.RefusedNoApp
	}
	return result
}

// avoidStreamsAfter makes later attempts use separate connections if the failed attempt has used a
// multiplexed stream.
func (retry *retrier) avoidStreamsAfter(failed *attempt) {
	if failed.conn.Mux != nil {
		retry.exchange.avoidStreams = true
	}
}

// decideAfterBreak ends an attempt that failed after a part of the request was sent and before a
// response arrived. err is nil if the run was cancelled. It returns the decision on whether to
// retry the request.
func (retry *retrier) decideAfterBreak(attempt *attempt, err error) decision {
	cancelCause := attempt.abort()
	retry.avoidStreamsAfter(attempt)
	if cancelCause == cause.None && errors.Is(err, errPathDead) {
		cancelCause = cause.PathDead
		retry.server.metrics.CountAborted(cancelCause.String(), 1)
	}
	// Record this before deciding, because this node may stop before the client has a response.
	if retry.exchange.safety != safeMethod || retry.closing.Load() {
		retry.exchange.runAborted = true
	}
	switch {
	case retry.closing.Load():
		return done
	case retry.body.ClientErr != nil:
		return retry.reply.rejectBody(retry.body.ClientErr)
	case retry.wasReplaced(cancelCause):
		return retry.yieldToNewerRun()
	case cancelCause == cause.DrainTimeout:
		return retry.decideAfterDrainTimeout(attempt)
	case cancelCause == cause.Leaving:
		return retry.closeLongPoll()
	case cancelCause == cause.TotalTimeout:
		return fail(problem.UpstreamTimeout, "the request took longer than the total timeout (--total-timeout, or total_timeout of its route): it may have run")
	case cancelCause == cause.Timeout:
		return fail(problem.UpstreamTimeout, "the app did not respond in time: the request may have run")
	}
	code := connErrorCode(attempt.route.Kind)
	if detail := detailOfFinalError(err, cancelCause); detail != "" {
		return fail(code, detail)
	}
	return retry.decideRetry(attempt, code, cancelCause)
}

// decideAfterDrainTimeout returns the decision for a request that was cancelled because its shard moves
// and drain-timeout has passed.
func (retry *retrier) decideAfterDrainTimeout(attempt *attempt) decision {
	switch {
	case retry.exchange.eventStream != nil:
		return retry.retryAtNextOwner(attempt)
	case retry.maySendToNextOwner(attempt):
		return retry.sendToNextOwner()
	}
	return fail(problem.ShardMoved, "the request was aborted because its shard moved away while it was running: it may have run")
}

// detailOfFinalError returns the problem detail after an error that no retry can fix, or "" if the
// connection broke for another reason, so that a retry may help.
func detailOfFinalError(err error, cancelCause cause.Cause) string {
	var malformed *h1.Error
	switch {
	case errors.As(err, &malformed):
		return "the response is malformed: " + malformed.Reason()
	case errors.Is(err, errNotSwitched):
		return "the response switches protocols without being asked to"
	case errors.Is(err, os.ErrDeadlineExceeded) && cancelCause == cause.None:
		return "the connection stalled while the request was sent or while the response head was read: the request may have run"
	}
	return ""
}

// decideRetry decides whether a request that may already have run is retried. Guarantee G7 permits
// this only for safe requests, and for idempotent ones within the same ownership epoch.
func (retry *retrier) decideRetry(attempt *attempt, code problem.Code, cancelCause cause.Cause) decision {
	retry.recordFailedTry(attempt)
	if detail := retry.retryDenialReason(attempt, cancelCause); detail != "" {
		if cancelCause == cause.Stopping {
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

// recordFailedTry counts an attempt after which the request may have run. For a PUT or DELETE it
// also records the ownership epoch, because the request may run again only in the same epoch.
func (retry *retrier) recordFailedTry(failed *attempt) {
	retry.exchange.tries++
	if failed.conn.Reused {
		retry.exchange.reusedConnAttempts++
	}
	if retry.exchange.safety == idempotentMethod {
		retry.exchange.idempotentRan, retry.exchange.ranEpoch = true, failed.epoch
	}
}

// methodPermitsRetry reports whether the method of the request permits another attempt after the
// failed one. A response header proves that the request has run. In that case, only a safe request
// is retried, and only once.
func (retry *retrier) methodPermitsRetry(failed *attempt) bool {
	switch retry.exchange.safety {
	case safeMethod:
		return retry.exchange.responsesBegun < 2
	case idempotentMethod:
		epochKnown := failed.epoch != 0
		return epochKnown && retry.exchange.responsesBegun == 0
	case unsafeMethod:
	}
	return false
}

// retryDenialReason returns the reason why a request that may have run is not retried, or "" if it
// is retried. It also records the possible crash of the process that ran the request.
func (retry *retrier) retryDenialReason(attempt *attempt, cancelCause cause.Cause) (detail string) {
	brokeTwoProcesses := retry.recordCrash(attempt, cancelCause)
	switch {
	case !retry.methodPermitsRetry(attempt) || !retry.body.IsReplayable():
		return detailMayHaveRun
	case brokeTwoProcesses:
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
func (retry *retrier) retryBudgetAllows(attempt *attempt, cancelCause cause.Cause) bool {
	if cancelCause == cause.Stopping {
		return true
	}
	connFailed := cancelCause == cause.None || cancelCause == cause.PathDead
	sessionFailed := connFailed && attempt.conn.Mux != nil && attempt.conn.Mux.SessionDraining()
	if sessionFailed && retry.exchange.tries == 1 {
		return true
	}
	return retry.server.budget.Spend()
}

// decideAfterPeerStop ends an attempt that the owner has cancelled because its process is stopping.
// It returns the decision on how the request continues. The owner's response means that the request
// may have run, but did not cause the stop.
func (retry *retrier) decideAfterPeerStop(attempt *attempt) decision {
	attempt.abort()
	attempt.conn.Pool.CloseIdleTo(attempt.conn.Boot)
	switch {
	case retry.closing.Load():
		return done
	case retry.body.ClientErr != nil:
		return retry.reply.rejectBody(retry.body.ClientErr)
	}
	return retry.decideRetry(attempt, problem.PeerUnreachable, cause.Shutdown)
}

// reportsNotAcquired reports whether the response means that the app has not acquired the shard.
func (retry *retrier) reportsNotAcquired(res *h1.Response) bool {
	return retry.server.options.NotAcquired != nil && !retry.exchange.Keyless && string(res.Value(headerAcquire)) == "1"
}

// decideAfterNotAcquired ends an attempt whose shard the app has not acquired, and reports this to the
// node. The request has not run, and is retried after the app has acquired the shard. If the app
// sends the same response maxTries times, the client receives an error response.
func (retry *retrier) decideAfterNotAcquired(attempt *attempt) decision {
	retry.exchange.markNotDelivered()
	attempt.abort()
	retry.exchange.notAcquiredCount++
	switch {
	case retry.closing.Load():
		return done
	case retry.body.ClientErr != nil:
		return retry.reply.rejectBody(retry.body.ClientErr)
	case retry.exchange.notAcquiredCount >= maxTries:
		return fail(problem.UpstreamBroken, "the app asks for the shard of the request again and again (Shardway-Acquire), though its acquire hook succeeds: let it note what it has acquired; the request has not run")
	}
	// If the app has acquired the shard since the request was sent, its response is outdated.
	if !retry.server.options.Cluster.Table().IsNewTo(retry.exchange.shard, attempt.generation) {
		retry.server.options.NotAcquired(retry.exchange.shard, attempt.epoch)
	}
	if !retry.body.IsReplayable() {
		return fail(problem.UpstreamBroken, problem.UnheldInPart)
	}
	return decision{action: actionWait, reason: route.ReasonAcquiring, refusal: route.RefusedQueued, notAcquired: attempt.attemptEpoch}
}

// ownerRefusal is the response of an owner that refused a forwarded request without running it.
type ownerRefusal struct {
	reason route.Refusal
	// shardBusy is set if the shard already has the maximum number of in-flight requests
	// (--max-shard-inflight). The reason is then RefusedBusy.
	shardBusy bool
	// committed and proposed are the epochs of the owner's shard map. Zero means that the refusal
	// contains no epochs.
	committed, proposed uint64
}

// decideAfterRefusal ends an attempt that the owner has refused, and decides how the request continues.
// No byte of the request has reached an app.
func (retry *retrier) decideAfterRefusal(attempt *attempt) decision {
	retry.exchange.markNotDelivered()
	refused := retry.readRefusal(attempt)
	retry.adoptTriesOfOwner(&attempt.conn.Response)
	retry.endRefusedAttempt(attempt)
	retry.server.metrics.RefusedByOwner[refused.reason].Add(1)
	retry.server.metrics.Retries[metrics.RetryRefused].Add(1)
	ownerStops := refused.reason == route.RefusedStopping
	if ownerStops {
		attempt.conn.Pool.CloseIdleTo(attempt.conn.Boot)
	}
	switch {
	case retry.closing.Load():
		return done
	case retry.body.Unreadable:
		return fail(problem.QueueTimeout, "the shard's owner refused the request after part of its body had been read")
	case retry.exchange.tries >= maxTries:
		return fail(problem.PeerUnreachable, detailMayHaveRun)
	case ownerStops && attempt.conn.Reused:
		return decision{action: actionRetry} // the refusal may come from a previous process of the node
	}
	return retry.waitAfterRefusal(attempt.conn.Pool, refused)
}

// readRefusal reads the refusal from the response of the owner.
func (retry *retrier) readRefusal(attempt *attempt) ownerRefusal {
	res := &attempt.conn.Response
	var refused ownerRefusal
	refused.committed, refused.proposed, _ = route.ParseEpochs(res.Known(h1.FieldShardwayMap))
	if retry.exchange.wasShedByOwner(attempt) {
		refused.reason, refused.shardBusy = route.RefusedBusy, true
		return refused
	}
	reason, isKnown := route.ParseRefusal(res.Known(h1.FieldShardwayRefused))
	if !isKnown {
		reason = route.RefusedQueued // a reason added in a newer version
	}
	refused.reason = reason
	return refused
}

// adoptTriesOfOwner adopts the number of tries in a refusal if it is higher than this node's count.
// The request has then run at the owner and was cancelled because its shard moves; see
// sendToNextOwner.
func (retry *retrier) adoptTriesOfOwner(res *h1.Response) {
	if tries := triesOf(&res.Header); tries > retry.exchange.tries {
		retry.recordLongPoll()
		retry.exchange.tries = tries
	}
}

// endRefusedAttempt ends an attempt after the refusal of the owner was read. It returns the
// connection to the pool if it can be reused.
func (retry *retrier) endRefusedAttempt(attempt *attempt) {
	retry.body.StopSending()
	retry.disconnect.Disarm()
	res := &attempt.conn.Response
	reusable := res.Body.Drain(drainLimit) == nil && res.KeepAlive() && !retry.body.Unreadable
	if !retry.body.IsFullyBuffered() {
		attempt.conn.Writer().Discard() // the owner expects no further bytes of the body
	}
	if retry.slot.Finish() == cause.None && reusable {
		attempt.conn.Pool.Put(attempt.conn)
	} else {
		attempt.conn.Pool.Discard(attempt.conn)
	}
	attempt.release()
}

// waitAfterRefusal returns the decision to wait until the owner may accept the request. It records
// the refusal in the circuit breaker and the backoff of pool, the connection pool of the owner.
func (retry *retrier) waitAfterRefusal(pool *connpool.Pool, refused ownerRefusal) decision {
	result := decision{
		action: actionWait, reason: route.ReasonRefused, refusal: refused.reason, backoff: true,
		committed: refused.committed, proposed: refused.proposed,
	}
	if refused.reason == route.RefusedNoApp {
		pool.Breaker.Open(backoff.ErrNoApp)
		result.reason, result.condition = route.ReasonUnreachable, &pool.Breaker
		return result
	}
	pool.Breaker.OnAccepted()
	if refused.reason != route.RefusedBusy {
		return result
	}
	result.reason, result.backoff = route.ReasonUnreachable, false
	if retry.exchange.isResumption() {
		result.condition = pool.UpgradeBackoff.OnRefused(0, false)
		return result
	}
	result.condition = pool.Backoff.OnRefused(retry.exchange.limitShard(), refused.shardBusy)
	if refused.shardBusy {
		result.code, result.detail = problem.ShardBusy, detailShardInflight
	}
	return result
}
