package proxy

import (
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
	"shardway/proxy/wsrelay"
	"shardway/shardmap"
)

// keysBy returns the key configuration that applies under a table.
func (state *requestState) keysBy(table *route.Table) *shardkey.Keys {
	if table.Keys() != nil {
		return table.Keys()
	}
	return state.settings.Keys
}

// rekey finds the key of a request again, because the key configuration has changed since the key
// was found. A request that may have run may now have another owner. Therefore such a request
// continues only if its method is safe.
func (router *router) rekey(keys *shardkey.Keys) decision {
	session := router.exchange.session
	resumesWebSocket := router.exchange.isResumption()
	mayRunAgain := router.exchange.safety == safeMethod || resumesWebSocket
	if router.exchange.mayHaveRun() && !mayRunAgain {
		return fail(connErrorCode(router.exchange.lastRoute), detailMayHaveRun)
	}
	router.keys.Keys = keys
	isGateway := router.server.upstreams.isGateway()
	found, invalid := router.keys.Find(isGateway)
	switch {
	case resumesWebSocket && (invalid != nil || !isKeyOf(session, &found)):
		// A WebSocket session is bound to its key and shard, and its client has its response
		// already. Therefore the client must reconnect.
		session.RefusalCode = wsession.CloseShardMoved
		return done
	case invalid != nil && router.exchange.eventStream != nil:
		router.reply.endStream(metrics.ResumeTimedOut, invalid.Detail)
		return done
	case invalid != nil:
		router.reply.sendProblem(invalid)
		return done
	}
	router.exchange.Found, router.exchange.keys, router.exchange.hasShard = found, keys, false
	return decision{}
}

// isKeyOf reports whether a key that was found again is still the key of a WebSocket session.
func isKeyOf(session *wsrelay.Session, found *shardkey.Found) bool {
	return !found.Keyless && shardkey.Hash(nil, found.Key) == session.KeyHash
}

// keyPlacer determines where the owner of a generated key is.
type keyPlacer struct {
	cluster        Cluster
	acceptsNewKeys func(node string) bool // Options.AcceptsNewKeys
}

// place returns whether a key that is generated here may belong to its shard: the owner is this
// node, another node, or a node that should not get new keys.
func (placer *keyPlacer) place(key []byte) shardkey.Placement {
	table := placer.cluster.Table()
	if table.Shards() == 0 || placer.acceptsNewKeys == nil {
		return shardkey.PlaceElsewhere
	}
	switch dest := table.Route(shardmap.ShardOfBytes(key, table.Shards())); {
	case dest.Kind == route.Local && placer.acceptsNewKeys(""):
		return shardkey.PlaceHere
	case dest.Kind == route.Remote && placer.acceptsNewKeys(dest.Node):
		return shardkey.PlaceElsewhere
	}
	return shardkey.PlaceAvoided
}
