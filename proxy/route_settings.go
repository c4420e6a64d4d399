package proxy

import (
	"hash/fnv"
	"time"

	"shardway/keysource"
	"shardway/proxy/keylimit"
)

// Route contains settings for requests below a path prefix. The owner of a shard applies them.
type Route struct {
	// Prefix is the path prefix, in the syntax of package keysource.
	Prefix string
	// KeyLimit replaces Settings.KeyLimit. nil means the limit of the next shorter prefix, or of the
	// Settings.
	KeyLimit *keylimit.Limit
	// FirstByteTimeout replaces Settings.FirstByteTimeout. Zero means the value of the next shorter
	// prefix, or of the Settings. A negative value means no limit.
	FirstByteTimeout time.Duration
}

// routeSettings contains the settings that apply to a request, after inheritance.
type routeSettings struct {
	keyLimit         keylimit.Limit
	limitScope       uint64        // the same for all requests of a key that share buckets
	firstByteTimeout time.Duration // zero means that of the Settings
}

// routeTable maps paths to routeSettings. It does not change.
type routeTable struct {
	prefixes *keysource.Prefixes
	settings []routeSettings // by the index of prefixes
	defaults routeSettings
}

// newRouteTable returns the table of the routes. It returns nil if there are none, and ignores routes with
// an invalid prefix, because the configuration was validated before.
func newRouteTable(routes []Route, keyLimit keylimit.Limit) *routeTable {
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
	table := &routeTable{prefixes: prefixes, defaults: routeSettings{keyLimit: keyLimit}, settings: make([]routeSettings, len(routes))}
	for i := range routes {
		table.settings[i] = table.inherit(routes, i)
	}
	return table
}

// inherit returns the settings of the route with the given index. Each setting comes from the longest
// prefix that has it.
func (table *routeTable) inherit(routes []Route, index int) routeSettings {
	result, hasLimit := table.defaults, false
	for enclosing := range table.prefixes.Enclosing(index) {
		route := &routes[enclosing]
		if route.KeyLimit != nil && !hasLimit {
			hasLimit, result.keyLimit, result.limitScope = true, *route.KeyLimit, scopeOf(route.Prefix)
		}
		if result.firstByteTimeout == 0 {
			result.firstByteTimeout = route.FirstByteTimeout
		}
	}
	return result
}

// scopeOf returns the limitScope of a prefix. It is the same after a reload.
func scopeOf(prefix string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(prefix)) // never fails
	return hash.Sum64()
}

// findRoute returns the settings that apply to the request. unambiguous is false if the app may interpret
// the path differently, so that it may be below another prefix.
func (state *requestState) findRoute() (found *routeSettings, unambiguous bool) {
	table := state.settings.routes
	if table == nil {
		return &state.settings.defaultRoute, true
	}
	if cap(state.routePath) < len(state.req.Path()) {
		state.routePath = make([]byte, 0, len(state.req.Path()))
	}
	path := keysource.ParsePath(state.routePath[:0], state.req.Path())
	index, unambiguous := table.prefixes.Match(&path)
	if index < 0 {
		return &table.defaults, unambiguous
	}
	return &table.settings[index], unambiguous
}
