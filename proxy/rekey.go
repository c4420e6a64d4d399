package proxy

import (
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
	"shardway/shardmap"
)

// keysBy returns the key configuration that applies under the table t.
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
	later := router.exchange.isResumption()
	if router.exchange.mayHaveRun() && router.exchange.safety != safeMethod && !later {
		return fail(connErrorCode(router.exchange.lastRoute), detailMayHaveRun)
	}
	router.keys.Keys = keys
	found, invalid := router.keys.Find(router.server.upstream == nil)
	switch {
	case later && (invalid != nil || found.Keyless || shardkey.Hash(nil, found.Key) != router.exchange.session.KeyHash):
		// A WebSocket session is bound to its key and shard, and its client has its response
		// already. Therefore the client must reconnect.
		router.exchange.session.RefusalCode = wsession.CloseShardMoved
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

// placeKey returns whether a new key may belong to the shard that it would have.
func (s *Server) placeKey(key []byte) shardkey.Placement {
	table := s.options.Cluster.Table()
	if table.Shards() == 0 || s.options.AcceptsNewKeys == nil {
		return shardkey.PlaceElsewhere
	}
	switch dest := table.Route(shardmap.ShardOfBytes(key, table.Shards())); {
	case dest.Kind == route.Local && s.options.AcceptsNewKeys(""):
		return shardkey.PlaceHere
	case dest.Kind == route.Remote && s.options.AcceptsNewKeys(dest.Node):
		return shardkey.PlaceElsewhere
	}
	return shardkey.PlaceAvoided
}
