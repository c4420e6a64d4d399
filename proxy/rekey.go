package proxy

import (
	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
	"shardway/proxy/wsrelay"
)

// keysBy returns the key configuration that applies under a table.
func (state *requestState) keysBy(table *route.Table) *shardkey.Keys {
	if table.Keys() != nil {
		return table.Keys()
	}
	return state.settings.Keys
}

// rekey finds the key of a request again, because the key configuration has changed since the key was found. The
// request may now have a different owner, so one that may already have run continues only if its method is safe.
func (router *router) rekey(keys *shardkey.Keys) decision {
	session := router.exchange.session
	resumesWebSocket := router.exchange.isResumption()
	mayRunAgain := router.exchange.safety == safeMethod || resumesWebSocket
	if router.exchange.mayHaveRun() && !mayRunAgain {
		return fail(connErrorCode(router.exchange.lastRoute), detailMayHaveRun)
	}
	if router.exchange.isRerouted { // the key configuration does not affect a key named by the app
		router.exchange.keys = keys
		router.exchange.hasShard = router.exchange.hasShard && router.exchange.service == "" // the range of the service may be another one
		return decision{}
	}
	found, invalid, err := router.findKey(keys)
	switch {
	case err != nil && router.exchange.eventStream != nil:
		router.reply.endStream(metrics.ResumeTimedOut, err.Error())
		return done
	case err != nil:
		return router.reply.rejectBody(err)
	case resumesWebSocket && (invalid != nil || !isKeyOf(session, &found) || router.keys.Service() != router.exchange.service):
		// A WebSocket session is bound to its key and shard, and its client already has a response, so the client
		// must reconnect.
		session.RefusalCode = wsession.CloseShardMoved
		return done
	case invalid != nil && router.exchange.eventStream != nil:
		router.reply.endStream(metrics.ResumeTimedOut, invalid.Detail)
		return done
	case invalid != nil:
		router.reply.sendProblem(invalid)
		return done
	case found.AwaitsMessage:
		return fail(problem.QueueTimeout, "the key configuration has changed, and the key is in the first message of the WebSocket now")
	}
	router.exchange.Found, router.exchange.keys, router.exchange.hasShard = found, keys, false
	router.exchange.service = router.keys.Service()
	return decision{}
}

// findKey finds the key of the request with the given key configuration. If the key may be in the body,
// findKey first buffers the body. err is the error of reading it.
func (router *router) findKey(keys *shardkey.Keys) (found shardkey.Found, invalid *problem.Problem, err error) {
	router.keys.Keys = keys
	isGateway := router.server.upstreams.IsGateway()
	if found, invalid = router.keys.Find(isGateway); !found.NeedsBody {
		return found, invalid, nil
	}
	body, err := router.bufferBodyForKey(keys)
	if err != nil {
		return shardkey.Found{}, nil, err
	}
	found, invalid = router.keys.FindInBody(isGateway, &body)
	return found, invalid, nil
}

// bufferBodyForKey reads the body of the request, because its key may be in it. If the body does not fit into the
// buffer, part of it may stay in the connection and is sent to the app later.
func (router *router) bufferBodyForKey(keys *shardkey.Keys) (shardkey.Body, error) {
	body := &router.body
	if body.Unreadable {
		return shardkey.Body{}, h1.ErrStopped
	}
	maxSize := keys.BodyLimit(router.server.options.BodyBuffer)
	if !body.CanBufferForKey(maxSize) {
		return shardkey.Body{}, nil
	}
	if len(body.Buffered) == 0 && !router.req.Body.Done() {
		if err := router.reply.requestBody(); err != nil {
			return shardkey.Body{}, err
		}
	}
	isComplete, err := body.BufferForKey(maxSize, router.settings.MaxBodyTotal)
	return shardkey.Body{Data: body.Buffered, IsComplete: isComplete}, err
}

// isKeyOf reports whether a newly found key is still the key of a WebSocket session.
func isKeyOf(session *wsrelay.Session, found *shardkey.Found) bool {
	return !found.Keyless && shardkey.Hash(nil, found.Key) == session.KeyHash
}
