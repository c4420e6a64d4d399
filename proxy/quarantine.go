package proxy

import (
	"time"

	"shardway/proxy/shardkey"
)

// quarantineRetry is the Retry-After of the response. It is long because an operator must first
// lift the quarantine.
const quarantineRetry = time.Minute

// Quarantine replaces the set of keys in quarantine; nil means none. A request that waits for its
// shard checks the new set at its next attempt. Requests in progress continue.
func (s *Server) Quarantine(quarantine *shardkey.Quarantine) { s.quarantine.Store(quarantine) }

// isQuarantined reports whether the request's key is in quarantine. The shard of the request must be
// known.
func (router *router) isQuarantined() bool {
	quarantine := router.server.quarantine.Load() // almost always nil, so that no hash is computed
	return quarantine != nil && !router.exchange.Keyless && quarantine.Holds(router.exchange.shard, router.exchange.Key)
}
