package proxy

import (
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/keylimit"
	"shardway/proxy/shardkey"
)

// keyLimitState is the state of a request under the limits of package keylimit.
type keyLimitState struct {
	limit   *keylimit.Limit // limit for the request; nil means none
	scope   uint64          // routeSettings.limitScope of the limit
	key     keylimit.ID     // key to which the limit applies
	counted bool            // the request has taken its token
	charged int64           // bytes of the body for which tokens were taken
}

// detailAmbiguousRoute is the problem detail for a request whose path the app may find below a different prefix.
const detailAmbiguousRoute = "an ambiguous path (., .., an empty segment, an encoded slash, \\ or ;) for the settings of the routes"

// enterLimits applies the limits of the request's key. A request that exceeds one gets 429. Retries by Shardway are
// not counted. route contains the settings of the request. After a reload, the limits of the present settings
// apply. The zero decision means that the request may be sent to the app.
func (router *router) enterLimits(route *routeSettings) decision {
	if settings := router.server.settings.Load(); settings != router.settings {
		var unambiguous bool
		if route, unambiguous = router.findRoute(settings.of(router.exchange.service)); !unambiguous {
			return fail(problem.BadRequest, detailAmbiguousRoute)
		}
	}
	if router.isExemptFromLimits() || route.keyLimit.IsOff() {
		return decision{}
	}
	state := &router.exchange.keyLimit
	state.limit, state.scope, state.key = &route.keyLimit, route.limitScope, router.keyID().In(route.limitScope)
	limit, buckets, now := state.limit, router.server.keyBuckets, router.server.clock.Exact()
	isFirstAttempt := !state.counted && router.exchange.tries == 0
	hasBody := !router.req.Body.Done() || router.req.Body.Received() > 0
	if isFirstAttempt && limit.BodyRate > 0 && hasBody {
		if wait, ok := buckets.MaySendBody(state.key, now); !ok {
			return router.deny(keylimit.BodyBytes, wait)
		}
	}
	if limit.Concurrent > 0 {
		if result := router.enterConcurrent(); result.action != 0 {
			return result
		}
	}
	if isFirstAttempt && limit.Interval > 0 {
		if wait, ok := buckets.TakeRequest(state.key, limit, now); !ok {
			router.admission.releasePermits()
			return router.deny(keylimit.Requests, wait)
		}
	}
	state.counted = true
	router.chargeBody(max(router.req.Body.Remaining(), 0))
	return decision{}
}

// isExemptFromLimits reports whether limits of keys do not apply to the request.
func (router *router) isExemptFromLimits() bool {
	return router.exchange.Keyless || router.wait.isResumedStream()
}

// enterConcurrent takes a permit among the concurrent requests of the key. A request beyond the limit waits in
// two cases only: it is sent again, and other requests may have taken its permit in the meantime, or the limit
// counts requests of other keys that ran before the limit was enabled.
func (router *router) enterConcurrent() decision {
	state := &router.exchange.keyLimit
	waiter := &keylimit.Waiter{ID: state.key, Shard: uint32(router.exchange.shard), Limit: state.limit.Concurrent, HadTurn: state.counted}
	if state.counted {
		waiter.MaxQueued = 1
	}
	permit, err := router.enterGate(&router.server.limitGate, waiter)
	router.admission.concurrencyPermit = permit
	if err == nil {
		return decision{}
	}
	if result, hasEnded := router.wait.decideIfNotLimited(err); hasEnded {
		return result
	}
	return router.deny(keylimit.Concurrent, time.Second)
}

// chargeBody takes tokens for the body bytes received so far and for the expected number of further bytes.
func (rs *requestState) chargeBody(expected int64) {
	state := &rs.exchange.keyLimit
	if state.limit == nil || state.limit.BodyRate == 0 {
		return
	}
	size := rs.req.Body.Received() + expected
	rs.server.keyBuckets.TakeBody(state.key, state.limit, size-state.charged, rs.server.clock.Exact())
	state.charged = max(state.charged, size)
}

// returnToken returns the token of a forwarded request that this node refuses without running it. The other node
// will send the request again, and it must not count twice.
func (router *router) returnToken() {
	state := &router.exchange.keyLimit
	if state.counted && state.limit.Interval > 0 && router.exchange.tries == 0 {
		router.server.keyBuckets.ReturnRequest(state.key, state.limit, router.server.clock.Exact())
	}
	state.counted = false
}

// deny responds to a request that exceeds a limit of its key.
func (router *router) deny(kind keylimit.Kind, wait time.Duration) decision {
	denial := keylimit.Denial{Kind: kind, RetryAfter: max(wait, time.Millisecond)}
	router.server.metrics.Limited[kind].Add(1)
	router.server.load.CountLimited(router.keyBytes())
	lines := denial.AppendHeaders(nil, router.exchange.keyLimit.limit)
	router.reply.sendProblemWith(&problem.Problem{
		Code: problem.RateLimited, Reason: kind.String(), RetryAfter: denial.RetryAfter,
		Detail: "the key of the request exceeds its limit of " + kind.String() + " (--key-limit)",
	}, lines)
	return done
}

// keyBytes returns the key of the request. The header of a forwarded request contains it with
// percent-encoding. The result is valid until the next use of the extractor.
func (router *router) keyBytes() []byte {
	if router.ingress == "" {
		return router.exchange.Key
	}
	encoded := router.req.Known(h1.FieldShardwayKey)
	key, _ := shardkey.AppendDecoded(router.keys.Grow(len(encoded)), encoded) // a node has encoded it, so it is valid
	return key
}
