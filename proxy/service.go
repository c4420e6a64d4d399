package proxy

import (
	"shardway/keysource"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// headerService contains the name of the service of a request, for the app and between nodes. Only a
// request of a cluster with services has it. Then headerShard counts from the first shard of the service.
// So two nodes with different lists of services never confuse the shards of two services.
const headerService = "Shardway-Service"

// lineService is headerService as the beginning of a header line.
const lineService = headerService + ": "

// resolveInService implements resolveShard for a request with a service.
func (exchange *exchange) resolveInService(table *route.Table) (ok bool) {
	service, ok := table.Service(exchange.service)
	if !ok || exchange.Keyless {
		return ok
	}
	exchange.firstShard = service.First
	exchange.shard, exchange.hasShard = table.ShardOf(exchange.service, exchange.Key)
	return exchange.hasShard
}

// shardInService returns the number of the shard within its service, which apps, clients and other nodes
// see.
func (exchange *exchange) shardInService() shardmap.Shard {
	return exchange.shard - exchange.firstShard
}

// ofService returns the name of the service for a text after the number of a shard. It is empty without services.
func (exchange *exchange) ofService() string {
	if exchange.service == "" {
		return ""
	}
	return " of service " + exchange.service
}

// readService reads the name of the service of a forwarded request. It returns false if the header is
// invalid.
func (state *requestState) readService() bool {
	name := state.req.Known(h1.FieldShardwayService)
	if name == nil {
		return true
	}
	if !keysource.ValidServiceName(string(name)) {
		return false
	}
	state.exchange.service = state.settings.internService(name)
	return true
}

// internService returns the name of a service. It does not allocate for a service of the settings.
func (settings *Settings) internService(name []byte) string {
	if found := settings.services[string(name)]; found != nil {
		return found.service
	}
	return string(name)
}

// setServices sets the fields that depend on Services.
func (settings *Settings) setServices() {
	if settings.Services == nil {
		return
	}
	settings.services = make(map[string]*Settings, len(settings.Services))
	for name, values := range settings.Services {
		values.Keys, values.Services = settings.Keys, nil
		service := values.withDefaults()
		service.service, service.serviceScope = name, scopeOf("service "+name)
		service.defaultRoute.firstByteTimeout = service.FirstByteTimeout
		service.defaultRoute.setHeaders(&settings.Headers, &service.Headers)
		service.routes = newRouteTable(service.Routes, &service.defaultRoute, &settings.Headers, &service.Headers)
		settings.services[name] = service
		hasTimeouts := service.FirstByteTimeout != settings.FirstByteTimeout || service.UpstreamIdleTimeout != settings.UpstreamIdleTimeout || service.TotalTimeout != settings.TotalTimeout
		settings.servicesLimit = settings.servicesLimit || service.limitsKeys() || hasTimeouts
		settings.servicesHeader = settings.servicesHeader || service.defaultRoute.changesHeaders()
		settings.servicesKeyInflight = settings.servicesKeyInflight || service.MaxKeyInflight > 0
	}
}

// changesHeaders reports whether there are header rules outside of routes.
func (settings *Settings) changesHeaders() bool {
	return settings.defaultRoute.changesHeaders() || settings.servicesHeader
}

// limitsKeyInflight reports whether MaxKeyInflight limits the requests of a service.
func (settings *Settings) limitsKeyInflight() bool {
	return settings.MaxKeyInflight > 0 || settings.servicesKeyInflight
}

// resolveForwarded sets the shard of a forwarded request by a table of this node. refusal is not zero if
// the table does not contain the shard of the service.
func (exchange *exchange) resolveForwarded(table *route.Table) (refusal route.Refusal) {
	if exchange.service == "" && !table.HasServices() {
		if int(exchange.shard) >= table.Shards() {
			return route.RefusedQueued
		}
		return 0
	}
	service, ok := table.Service(exchange.service)
	if !ok || int(exchange.serviceShard) >= service.Shards {
		return route.RefusedNotOwner
	}
	exchange.firstShard = service.First
	if !exchange.Keyless {
		exchange.shard = service.First + exchange.serviceShard
	}
	return 0
}

// noServiceYet is the decision for a request whose service the cluster does not have yet. It waits for
// the table that contains the service.
var noServiceYet = decision{action: actionWait, reason: route.ReasonNoMap, refusal: route.RefusedNotOwner}

// serviceSettings returns the settings that apply to the service of the request.
func (state *requestState) serviceSettings() *Settings {
	return state.settings.of(state.exchange.service)
}

// of returns the settings of a service. An empty name means that the cluster has one service.
func (settings *Settings) of(service string) *Settings {
	if service != "" {
		if found := settings.services[service]; found != nil {
			return found
		}
	}
	return settings
}

// appendService appends the name of the service of the request, if it has one.
func (exchange *exchange) appendService(dst []byte) []byte {
	if exchange.service == "" {
		return dst
	}
	dst = append(dst, lineService...)
	dst = append(dst, exchange.service...)
	return append(dst, "\r\n"...)
}

// refuseInstance is the decision for a request for a shard whose app instance is not configured, or runs
// another service. The next map moves the shard.
func (*router) refuseInstance() decision {
	return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedNoApp, backoff: true}
}

// refuseService is the decision for a forwarded request without a key, whose service this node does not
// run. The ingress sends it to another node.
func (*router) refuseService() decision {
	return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedNotOwner}
}
