package proxy

import (
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/keylimit"
	"shardway/proxy/shardkey"
)

// keyLimitState is the part of a request that package keylimit limits.
type keyLimitState struct {
	limit   *keylimit.Limit // limit for the request; nil means none
	key     keylimit.ID     // key to which the limit applies
	counted bool            // the request has taken its token
	charged int64           // bytes of the body for which tokens were taken
}

// detailAmbiguousRoute is the detail of the problem for a request whose path may be below another prefix
// for the app.
const detailAmbiguousRoute = "an ambiguous path (., .., an empty segment, an encoded slash, \\ or ;) for the settings of the routes"

// enterLimits applies the limits of the request's key. A request that exceeds one gets 429. Attempts of
// Shardway to send a request again are not counted. The zero decision means that the request may be sent
// to the app.
func (router *router) enterLimits(route *routeSettings) decision {
	state := &router.exchange.keyLimit
	if state.limit == nil && !router.findLimit(route) {
		return decision{}
	}
	limit, buckets, now := state.limit, router.server.keyBuckets, router.server.clock.Exact()
	isFirstAttempt := !state.counted && router.exchange.tries == 0
	hasBody := !router.req.Body.Done() || router.req.Body.Received() > 0
	if isFirstAttempt && limit.BodyRate > 0 && hasBody {
		if wait, ok := buckets.MaySendBody(state.key, now); !ok {
			return router.deny(keylimit.BodyBytes, wait)
		}
	}
	if limit.Concurrent > 0 && !router.enterConcurrent() {
		return router.deny(keylimit.Concurrent, time.Second)
	}
	if isFirstAttempt && limit.Interval > 0 {
		if wait, ok := buckets.TakeRequest(state.key, limit, now); !ok {
			router.admission.leaveKey()
			return router.deny(keylimit.Requests, wait)
		}
	}
	state.counted = true
	router.chargeBody(max(router.req.Body.Remaining(), 0))
	return decision{}
}

// findLimit sets the limit that applies to the request. It returns false if there is none.
func (router *router) findLimit(route *routeSettings) bool {
	isExempt := router.exchange.Keyless || router.wait.isResumedStream()
	if isExempt || route.keyLimit.IsOff() {
		return false
	}
	router.exchange.keyLimit = keyLimitState{limit: &route.keyLimit, key: router.keyID().In(route.limitScope)}
	return true
}

// enterConcurrent takes a place among the concurrent requests of the key, without waiting. Only a request
// that is sent again waits, because other requests may have taken its place.
func (router *router) enterConcurrent() bool {
	state := &router.exchange.keyLimit
	waiter := &keylimit.Waiter{ID: state.key, Shard: uint32(router.exchange.shard), Limit: state.limit.Concurrent, HadTurn: state.counted}
	if state.counted {
		waiter.MaxQueued = 1
	}
	place, err := router.server.limitGate.Join(waiter)
	if err == nil && !place.IsTaken() {
		place, err = router.server.limitGate.Await(waiter, router.wait.context().Done(), router.wait.timeLeft(time.Now()))
	}
	router.admission.limitPlace = place
	return err == nil
}

// chargeBody takes tokens for the bytes of the body that were received so far, and for expected further
// ones.
func (rs *requestState) chargeBody(expected int64) {
	state := &rs.exchange.keyLimit
	if state.limit == nil || state.limit.BodyRate == 0 {
		return
	}
	size := rs.req.Body.Received() + expected
	rs.server.keyBuckets.TakeBody(state.key, state.limit, size-state.charged, rs.server.clock.Exact())
	state.charged = max(state.charged, size)
}

// returnToken returns the token of a request that this node refuses to another node without executing it.
// The other node sends the request again, and it must not count twice.
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
