package proxy

import (
	"slices"

	"shardway/proxy/inflight"
	"shardway/proxy/keylimit"
	"shardway/proxy/route"
)

// lacksPermit reports whether the request still needs a permit of a limit before it runs, because a reload has
// enabled the limit. The caller must already have begun the run, so that replaceSettings finds it if the result is
// false.
func (router *router) lacksPermit() bool {
	settings := router.server.settings.Load()
	if settings == router.settings {
		return false
	}
	settings = settings.of(router.exchange.service)
	return router.needsKeyPermit(settings) && !router.admission.keyPermit.IsHeld() ||
		router.needsShardPermit(settings) && !router.admission.shardPermit.IsHeld() ||
		router.lacksConcurrencyPermit(settings)
}

// lacksConcurrencyPermit reports whether the request still needs a permit among the concurrent requests of its key.
// It returns true for an ambiguous path, so that enterLimits refuses the request.
func (router *router) lacksConcurrencyPermit(settings *Settings) bool {
	if router.isExemptFromLimits() {
		return false
	}
	route, unambiguous := router.findRoute(settings)
	isCounted := router.admission.concurrencyPermit.IsHeld() && router.exchange.keyLimit.scope == route.limitScope
	return !unambiguous || route.keyLimit.Concurrent > 0 && !isCounted
}

// limitsConcurrency reports whether settings limit the concurrent requests of keys, and previous did not count these
// requests together.
func (settings *Settings) limitsConcurrency(previous *Settings) bool {
	for name, service := range settings.services {
		if service.limitsConcurrencyOfService(previous.of(name)) {
			return true
		}
	}
	return settings.limitsConcurrencyOfService(previous)
}

// limitsConcurrencyOfService is limitsConcurrency for the settings of one service.
func (settings *Settings) limitsConcurrencyOfService(previous *Settings) bool {
	isNewAt := func(path string) bool {
		route, _ := settings.findRoute(nil, []byte(path))
		oldRoute, _ := previous.findRoute(nil, []byte(path))
		return route.keyLimit.Concurrent > 0 && (oldRoute.keyLimit.Concurrent == 0 || oldRoute.limitScope != route.limitScope)
	}
	// Two paths with the same longest prefix among all routes have the same settings.
	hasNewLimit := isNewAt("/")
	for _, route := range slices.Concat(settings.Routes, previous.Routes) {
		hasNewLimit = hasNewLimit || isNewAt(route.Prefix)
	}
	return hasNewLimit
}

// replaceSettings publishes settings. If they enable a limit of a gate, requests that run without a permit count
// until they end.
func (s *Server) replaceSettings(next *Settings) {
	previous := s.settings.Load()
	var gates []*keylimit.Gate
	if !previous.limitsKeyInflight() && next.limitsKeyInflight() {
		gates = append(gates, &s.keyGate)
	}
	if !s.limitsProcesses(previous) && s.limitsProcesses(next) {
		gates = append(gates, &s.shardGate)
	}
	if next.limitsConcurrency(previous) {
		gates = append(gates, &s.limitGate)
	}
	if len(gates) == 0 {
		s.settings.Store(next)
		return
	}
	permitless := keylimit.Enable(gates, func() []keylimit.PermitlessRun {
		s.settings.Store(next)
		return s.permitlessRuns()
	})
	if permitless > 0 {
		s.options.Log.Info().Int("requests", permitless).Msg("in-flight limit counts earlier requests")
	}
}

// permitlessRuns returns the running requests at the app of this node that count for an in-flight limit. Their
// HasEnded functions keep references to clients, and a client may be reused for another connection before the limit
// calls the function. HasEnded therefore reads only the slot of the client, and compares the run number, which
// increases over all connections of the client.
func (s *Server) permitlessRuns() (runs []keylimit.PermitlessRun) {
	const exempt = inflight.Keyless | inflight.Tunnel | inflight.Events | inflight.WebSocket
	s.conns.Each(func(c *client) {
		run := c.slot.Load()
		if run.Kind != route.Local || run.Has(exempt) {
			return
		}
		runs = append(runs, keylimit.PermitlessRun{Shard: uint32(run.Shard), HasEnded: func() bool {
			current := c.slot.Load()
			return current.Number != run.Number || current.Kind == 0 || current.Has(exempt)
		}})
	})
	return runs
}
