package proxy

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"shardway/internal/headerrules"
	"shardway/keysource"
	"shardway/proxy/connpool"
	"shardway/proxy/keylimit"
)

// Route contains settings for requests below a path prefix. The owner of a shard applies them, except
// TotalTimeout, which the node of the client applies.
type Route struct {
	// Prefix is the path prefix, in the syntax of package keysource.
	Prefix string
	// KeyLimit replaces Settings.KeyLimit. nil inherits the limit of the next shorter prefix, or of the Settings.
	KeyLimit *keylimit.Limit
	// FirstByteTimeout replaces Settings.FirstByteTimeout. Zero inherits the value of the next shorter prefix, or
	// of the Settings. A negative value means no limit.
	FirstByteTimeout time.Duration
	// UpstreamIdleTimeout replaces Settings.UpstreamIdleTimeout, in the same way. It does not apply to an
	// app in this process.
	UpstreamIdleTimeout time.Duration
	// TotalTimeout replaces Settings.TotalTimeout. Zero inherits the value of the next shorter prefix, or of the
	// Settings. A negative value means no limit.
	TotalTimeout time.Duration
	// Headers contains header rules, in addition to those of shorter prefixes and of the Settings.
	Headers headerrules.Config
}

// routeSettings contains the settings that apply to a request, after inheritance.
type routeSettings struct {
	keyLimit         keylimit.Limit
	limitScope       uint64        // equal for all requests of a key that share buckets
	firstByteTimeout time.Duration // zero means that of the Settings
	idleTimeout      time.Duration // UpstreamIdleTimeout; zero means that of the Settings
	totalTimeout     time.Duration // zero or a negative value means no limit

	requestHeaders, responseHeaders *headerrules.Edit // nil means no changes
}

// routeTable maps paths to routeSettings. It does not change.
type routeTable struct {
	prefixes *keysource.Prefixes
	settings []routeSettings // by the index of prefixes
	defaults routeSettings
	// setsIdleTimeout is set if a route has an UpstreamIdleTimeout.
	setsIdleTimeout bool
}

// newRouteTable returns the table of the routes. It returns nil if there are none, and ignores routes with
// an invalid prefix, because the configuration has already been validated.
func newRouteTable(routes []Route, defaults *routeSettings, headers ...*headerrules.Config) *routeTable {
	if len(routes) == 0 {
		return nil
	}
	texts := make([]string, len(routes))
	for i := range routes {
		texts[i] = routes[i].Prefix
	}
	prefixes, err := keysource.NewPrefixes(texts)
	if err != nil {
		return nil
	}
	table := &routeTable{prefixes: prefixes, defaults: *defaults, settings: make([]routeSettings, len(routes))}
	for i := range routes {
		table.settings[i] = table.inherit(routes, i)
		table.setsIdleTimeout = table.setsIdleTimeout || routes[i].UpstreamIdleTimeout != 0
		table.settings[i].setHeaders(table.headersOf(routes, i, headers)...)
	}
	return table
}

// inherit returns the settings of the route with the given index. Each setting comes from the longest
// prefix that has it.
func (table *routeTable) inherit(routes []Route, index int) routeSettings {
	result, hasLimit, hasTimeout := table.defaults, false, false
	result.firstByteTimeout = 0
	for enclosing := range table.prefixes.Enclosing(index) {
		route := &routes[enclosing]
		if route.KeyLimit != nil && !hasLimit {
			hasLimit, result.keyLimit, result.limitScope = true, *route.KeyLimit, scopeOf(route.Prefix)
		}
		if route.TotalTimeout != 0 && !hasTimeout {
			hasTimeout, result.totalTimeout = true, route.TotalTimeout
		}
		if result.idleTimeout == 0 {
			result.idleTimeout = route.UpstreamIdleTimeout
		}
		if result.firstByteTimeout == 0 {
			result.firstByteTimeout = route.FirstByteTimeout
		}
	}
	result.firstByteTimeout = cmp.Or(result.firstByteTimeout, table.defaults.firstByteTimeout)
	return result
}

// headersOf returns the header rules that apply to the route with the given index, the general ones first.
func (table *routeTable) headersOf(routes []Route, index int, general []*headerrules.Config) []*headerrules.Config {
	levels := slices.Clone(general)
	for enclosing := range table.prefixes.Enclosing(index) {
		levels = slices.Insert(levels, len(general), &routes[enclosing].Headers) // the longest prefix comes first
	}
	return levels
}

// setHeaders sets the header rules, which apply in order.
func (settings *routeSettings) setHeaders(levels ...*headerrules.Config) {
	requests, responses := make([]*headerrules.Rules, len(levels)), make([]*headerrules.Rules, len(levels))
	for i, level := range levels {
		requests[i], responses[i] = &level.Request, &level.Response
	}
	settings.requestHeaders, settings.responseHeaders = headerrules.Compile(requests...), headerrules.Compile(responses...)
}

// changesHeaders reports whether there are header rules.
func (settings *routeSettings) changesHeaders() bool {
	return settings.requestHeaders != nil || settings.responseHeaders != nil
}

// scopeOf returns the limitScope of a prefix. It is the same after a reload.
func scopeOf(prefix string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(prefix)) // never fails
	return hash.Sum64()
}

// setIdleTimeout sets the UpstreamIdleTimeout of a connection to the app for a request of a route. The connection
// may previously have served another route.
func (settings *Settings) setIdleTimeout(conn *connpool.Conn, route *routeSettings) {
	isOfService := settings.serviceScope != 0 // the connection has the timeout of the node
	isUsual := !isOfService && (settings.routes == nil || !settings.routes.setsIdleTimeout)
	if isUsual || conn.InProcess {
		return
	}
	timeouts := conn.Timeouts()
	timeouts.Body = max(cmp.Or(route.idleTimeout, settings.UpstreamIdleTimeout), 0) // a negative value means no limit
	conn.SetTimeouts(timeouts)
}

// findRoute returns the part of settings that applies to the request. unambiguous is false if the app may
// interpret the path differently, so that it may be below another prefix.
func (state *requestState) findRoute(settings *Settings) (found *routeSettings, unambiguous bool) {
	if settings.routes != nil && cap(state.routePath) < len(state.req.Path()) {
		state.routePath = make([]byte, 0, len(state.req.Path()))
	}
	return settings.findRoute(state.routePath, state.req.Path())
}

// findRoute returns the settings that apply to a request with the path. It decodes the path in memory, if that
// is large enough. unambiguous is false as for requestState.findRoute.
func (settings *Settings) findRoute(memory, path []byte) (found *routeSettings, unambiguous bool) {
	table := settings.routes
	if table == nil {
		return &settings.defaultRoute, true
	}
	parsed := keysource.ParsePath(memory[:0], path)
	index, unambiguous := table.prefixes.Match(&parsed)
	if index < 0 {
		return &table.defaults, unambiguous
	}
	return &table.settings[index], unambiguous
}
