package proxy

import (
	"slices"

	"shardway/proxy/inflight"
	"shardway/proxy/keylimit"
	"shardway/proxy/route"
)

// lacksPlace reports whether the request must take a slot before it runs, because a reload has enabled a limit. The
// caller must already have begun the run, so that replaceSettings finds it if the result is false.
func (router *router) lacksPlace() bool {
	settings := router.server.settings.Load()
	if settings == router.settings {
		return false
	}
	settings = settings.of(router.exchange.service)
	return router.needsKeyPlace(settings) && !router.admission.place.IsTaken() ||
		router.needsShardPlace(settings) && !router.admission.shardPlace.IsTaken() ||
		router.lacksLimitPlace(settings)
}

// lacksLimitPlace reports whether the request must take a slot among the concurrent requests of its key. It returns
// true for an ambiguous path, so that enterLimits refuses the request.
func (router *router) lacksLimitPlace(settings *Settings) bool {
	if router.isExemptFromLimits() {
		return false
	}
	route, unambiguous := router.findRoute(settings)
	isCounted := router.admission.limitPlace.IsTaken() && router.exchange.keyLimit.scope == route.limitScope
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
	differsAt := func(path string) bool {
		route, _ := settings.findRoute(nil, []byte(path))
		earlier, _ := previous.findRoute(nil, []byte(path))
		return route.keyLimit.Concurrent > 0 && (earlier.keyLimit.Concurrent == 0 || earlier.limitScope != route.limitScope)
	}
	// Two paths with the same longest prefix among all routes have the same settings.
	isSwitched := differsAt("/")
	for _, route := range slices.Concat(settings.Routes, previous.Routes) {
		isSwitched = isSwitched || differsAt(route.Prefix)
	}
	return isSwitched
}

// replaceSettings publishes settings. If they enable a limit of a gate, requests that are running without a slot
// count until they end.
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
	earlier := keylimit.SwitchOn(gates, func() []keylimit.EarlierRun {
		s.settings.Store(next)
		return s.earlierRuns()
	})
	if earlier > 0 {
		s.options.Log.Info().Int("requests", earlier).Msg("in-flight limit counts earlier requests")
	}
}

// earlierRuns returns the requests at the app of this node that count for an in-flight limit. IsOver keeps a
// reference to a client, which may be reused for another connection before the limit calls it. IsOver therefore
// reads only the slot, and compares the run number, which increases over all connections of the client.
func (s *Server) earlierRuns() (runs []keylimit.EarlierRun) {
	const exempt = inflight.Keyless | inflight.Tunnel | inflight.Events | inflight.WebSocket
	s.conns.Each(func(c *client) {
		run := c.slot.Load()
		if run.Kind != route.Local || run.Has(exempt) {
			return
		}
		runs = append(runs, keylimit.EarlierRun{Shard: uint32(run.Shard), IsOver: func() bool {
			current := c.slot.Load()
			return current.Number != run.Number || current.Kind == 0 || current.Has(exempt)
		}})
	})
	return runs
}
