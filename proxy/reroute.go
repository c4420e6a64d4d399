package proxy

import (
	"bytes"
	"net/http"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/metrics"
	"shardway/proxy/shardkey"
)

// This file contains the steps of a request whose key the app names: with a 421 response that has Shardway-Key, the
// app reports that it has not run the request, because the request belongs to another key. The owner forwards such
// a response, and the ingress then sends the request to that key's owner, once.

// Problem details for such requests.
const (
	detailNamedInvalidKey = "the app has named an invalid key (421 with Shardway-Key): one line with a percent-encoded key of up to 2048 bytes is allowed; the request has not run"
	detailNamedSameKey    = "the app has named the key that the request has already (421 with Shardway-Key); the request has not run"
	detailNamedTwice      = "a second app instance has named another key (421 with Shardway-Key), and a request is sent again only once; the request has not run"
	detailNamedTooLate    = "the app has named another key (421 with Shardway-Key), but the request body exceeds the buffer, so it cannot be sent again (--body-buffer); the request has not run"
)

// namesKey reports whether the response names the key of the request and this node must act on it. Only the ingress
// does, and not for a resumed stream or WebSocket, whose client already has its response.
func (runner *attemptRunner) namesKey(res *h1.Response) bool {
	isFirst := runner.exchange.eventStream == nil && !runner.exchange.isResumption()
	return runner.ingress == "" && isFirst && res.Status() == http.StatusMisdirectedRequest && res.Has(h1.FieldShardwayKey)
}

// decideAfterNamedKey ends an attempt whose response names the key of the request, and decides how the
// request continues.
func (retry *retrier) decideAfterNamedKey(attempt *attempt) decision {
	exchange := &retry.exchange
	key := shardkey.ParseNamed(&attempt.conn.Response.Header)
	isSameKey := !exchange.Keyless && bytes.Equal(key, exchange.Key)
	exchange.markNotDelivered()
	isBodyUnread := attempt.bodyHeldBack
	retry.endMisdirectedAttempt(attempt)
	switch {
	case retry.closing.Load():
		return done
	case retry.body.ClientErr != nil:
		return retry.reply.rejectBody(retry.body.ClientErr)
	case key == nil:
		return fail(problem.UpstreamBroken, exchange.addMayHaveRun(detailNamedInvalidKey))
	case exchange.isRerouted:
		return fail(problem.RerouteLoop, exchange.addMayHaveRun(detailNamedTwice))
	case isSameKey:
		return fail(problem.RerouteLoop, exchange.addMayHaveRun(detailNamedSameKey))
	case !isBodyUnread && !retry.body.IsReplayable():
		return fail(problem.TooLarge, exchange.addMayHaveRun(detailNamedTooLate))
	}
	exchange.namedKey = key
	return decision{action: actionReroute}
}

// endMisdirectedAttempt ends an attempt whose response is not forwarded. A body that the client is still sending
// remains readable: the sending goroutine ends when the closed connection refuses the client's next data.
func (retry *retrier) endMisdirectedAttempt(attempt *attempt) {
	isSent := retry.body.AwaitSent()
	if isSent && !attempt.conn.InProcess && attempt.conn.Response.Body.IsBuffered() {
		retry.endRefusedAttempt(attempt)
		return
	}
	attempt.slot.Finish()
	_ = attempt.conn.Close() // before release, so that the app cannot still be working on the request
	attempt.release()
	if !isSent && retry.req.ExpectsContinue() && retry.req.Minor() > 0 && retry.reply.writeContinue(nil) != nil {
		retry.exchange.connAborted = true
	}
	retry.body.AwaitSendingEnd()
	retry.disconnect.Disarm()
	attempt.conn.Pool.Discard(attempt.conn)
}

// reroute gives the request the key that the app named. All rules for keys apply to the next attempt: quarantine,
// limits and admission use the new key and its shard.
func (router *router) reroute() {
	exchange := &router.exchange
	exchange.finishQueueing() // the next attempt waits in its own turn
	if exchange.Keyless {
		exchange.sample = router.server.load.Sample(exchange.namedKey)
	} else {
		exchange.sample.MoveTo(exchange.Key, exchange.namedKey)
	}
	exchange.Found = shardkey.Found{Key: exchange.namedKey, Wrapped: exchange.Wrapped}
	exchange.hasShard, exchange.hadTurn, exchange.isRerouted = false, false, true
	exchange.keyLimit = keyLimitState{}
	if exchange.Wrapped != nil {
		exchange.Wrapped.Rename(exchange.namedKey)
	}
	exchange.account.Rerouted = true
	router.server.metrics.Retries[metrics.RetryKeyNamed].Add(1)
	if exchange.session == nil {
		router.createSession()
	}
}
