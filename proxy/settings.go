package proxy

import (
	"cmp"
	"net/netip"
	"time"

	"shardway/internal/headerrules"
	"shardway/keysource"
	"shardway/proxy/accesslog"
	"shardway/proxy/forwarded"
	"shardway/proxy/keylimit"
	"shardway/proxy/shardkey"
	"shardway/proxy/upstream"
)

// Settings contains the options that may change while the Server runs. Apply replaces the whole
// value; a Settings value itself never changes. Each request loads the settings once, after its
// header has been read, and uses them until it ends. For durations and sizes, zero means the
// default.
type Settings struct {
	// Keys finds the key of a request. nil means the X-Shard-Key header, and a 400 response without
	// it.
	Keys *shardkey.Keys
	// StickyCookie has the attributes of the sticky cookie. Its scope is that of Keys.
	StickyCookie keysource.StickyCookie
	// StreamGrace is how long an upgraded connection or an event stream may continue after its
	// shard has moved, or after Shutdown. Zero means 250 ms, and a negative value means that it
	// ends immediately.
	StreamGrace time.Duration
	// CloseSockets makes all WebSockets close when their shard moves, even if the app permits
	// resumption.
	CloseSockets bool
	// DebugHeaders adds Shardway-Node and Shardway-Shard to responses.
	DebugHeaders bool
	// TrustedProxies contains the addresses of proxies whose X-Forwarded headers are accepted and
	// extended. Empty means that no proxy is trusted.
	TrustedProxies []netip.Prefix
	// ProbePath is a path for which the node itself responds on the app port, with the result of
	// Options.Probe: 200, or 503 and the reason. Empty means none.
	ProbePath string
	// Forwarded adds the Forwarded header (RFC 7239) in addition to X-Forwarded-*.
	Forwarded bool
	// Access configures the access log. nil means no access log, at no cost.
	Access *accesslog.Config

	// MaxHeaderBytes limits the size of a header section in bytes, including the first line. If a
	// client exceeds it, it receives 431; if the app does, the client receives 502. Zero means 64
	// KiB. When this field, MaxHeaders or MaxURI changes, a connection that waits for a request
	// uses the old limit for one more request.
	MaxHeaderBytes int
	// MaxHeaderBytesTotal limits the memory of partly received header sections of all clients. Each
	// occupies a multiple of 8 KiB. Above the limit, the slowest clients receive 408. Zero means 64
	// MiB.
	MaxHeaderBytesTotal int64
	// MaxHeaders limits the number of header lines. Exceeding it has the same effect as exceeding
	// MaxHeaderBytes. Zero means 256.
	MaxHeaders int
	// MaxURI limits the length of a request line; the response to a longer one is 414. Zero means
	// 16 KiB.
	MaxURI int
	// MaxBody limits the size of a request body; the response to a larger one is 413. Zero means no
	// limit.
	MaxBody int64
	// MaxBodyTotal limits the memory of all requests, including their headers, that wait until
	// their bodies have been read. These are bodies of known length up to Options.BodyBuffer, and
	// all bodies for a handler that does not accept streams. Above the limit, the slowest clients
	// receive 408. Zero means 256 MiB.
	MaxBodyTotal int64
	// MaxShardInflight limits the requests of one shard that are in progress at its owner or wait
	// for a connection to its app, if this node is the owner. Further requests receive 503. Streams
	// and upgraded connections do not count (see Options.MaxStreams). Zero means no limit.
	MaxShardInflight int
	// MaxKeyInflight limits the requests of one key that are in progress at the owner of its shard,
	// if this node is the owner. Further requests wait, as for MaxShardInflight, up to ShardQueue
	// for each key, or receive 503. Upgraded connections and event streams do not count. Zero means
	// no limit.
	MaxKeyInflight int
	// KeyLimit limits the requests of each key, if this node is the owner of its shard. A request
	// that exceeds it receives 429. The zero value means no limit.
	KeyLimit keylimit.Limit
	// Headers contains rules for header fields of requests to the app and of its responses.
	Headers headerrules.Config
	// Routes contains settings for requests below path prefixes. The longest matching prefix applies.
	// While there are any, requests with an ambiguous path receive 400.
	Routes []Route
	// ShardQueue is how many further requests of one shard wait at its owner, in the order of their
	// arrival, for up to Options.QueueWait. Zero means that further requests receive 503 immediately.
	ShardQueue int
	// HeaderTimeout limits the time from the first byte of a header section to its end, and the
	// time of a TLS handshake. Zero means 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout limits the wait for the next request. It also limits the wait for the next byte
	// of a body between the client and this node, in both directions. Zero means 75 s.
	IdleTimeout time.Duration
	// MinBodyRate is the minimum rate of a request body, in bytes per second of waiting time. The
	// first 10 s of waiting do not count. A slower client receives 408. Zero means 500, and a
	// negative value means no minimum.
	MinBodyRate int64
	// ConnectTimeout limits the time of one dial to the app or to another node. Zero means 2 s.
	ConnectTimeout time.Duration
	// FirstByteTimeout limits the time from the end of the request to the first byte of the app's
	// response. Zero means 5 minutes, and a negative value means no limit.
	FirstByteTimeout time.Duration
	// TotalTimeout limits the time from the header of a client's request to the end of its
	// response, at the node of the client. It does not apply to upgraded connections and event
	// streams. Zero means no limit.
	TotalTimeout time.Duration
	// UpstreamIdleTimeout limits the wait for the next bytes of a response that has begun. Zero
	// means 10 minutes, and a negative value means no limit. It does not apply to upgraded
	// connections.
	UpstreamIdleTimeout time.Duration

	// Services contains the settings of each service by its name. Of them, only the limits of keys and
	// shards, ShardQueue, StickyCookie, Headers, Routes, FirstByteTimeout, TotalTimeout and
	// UpstreamIdleTimeout have an effect. nil means that all requests have the settings above.
	Services map[string]Settings

	// withDefaults sets the following fields.

	services            map[string]*Settings // Services with their defaults
	service             string               // name of the service; empty unless these are the settings of a service
	serviceScope        uint64               // the same for all requests of a service; zero unless these are the settings of a service
	servicesLimit       bool                 // a service limits the requests of keys, or has timeouts of its own; see limitsKeys
	servicesKeyInflight bool                 // a service has MaxKeyInflight
	servicesHeader      bool                 // a service has header rules; see changesHeaders
	routes              *routeTable          // nil means that Routes is empty
	defaultRoute        routeSettings        // settings that apply without routes
	upstreamLimits      upstream.Limits
}

// withDefaults returns a copy of settings in which zero values are replaced by the defaults.
func (settings Settings) withDefaults() *Settings {
	settings.StreamGrace = cmp.Or(settings.StreamGrace, 250*time.Millisecond)
	settings.MaxHeaderBytes = cmp.Or(settings.MaxHeaderBytes, 64<<10)
	settings.MaxHeaderBytesTotal = cmp.Or(settings.MaxHeaderBytesTotal, 64<<20)
	settings.MaxBodyTotal = cmp.Or(settings.MaxBodyTotal, 256<<20)
	settings.MaxHeaders = cmp.Or(settings.MaxHeaders, 256)
	settings.MaxURI = cmp.Or(settings.MaxURI, 16<<10)
	settings.HeaderTimeout = cmp.Or(settings.HeaderTimeout, 10*time.Second)
	settings.IdleTimeout = cmp.Or(settings.IdleTimeout, 75*time.Second)
	settings.MinBodyRate = cmp.Or(settings.MinBodyRate, 500)
	settings.ConnectTimeout = cmp.Or(settings.ConnectTimeout, 2*time.Second)
	settings.FirstByteTimeout = cmp.Or(settings.FirstByteTimeout, 5*time.Minute)
	settings.UpstreamIdleTimeout = cmp.Or(settings.UpstreamIdleTimeout, 10*time.Minute)
	settings.defaultRoute = routeSettings{keyLimit: settings.KeyLimit, totalTimeout: settings.TotalTimeout}
	settings.defaultRoute.setHeaders(&settings.Headers)
	settings.routes = newRouteTable(settings.Routes, &settings.defaultRoute, &settings.Headers)
	settings.upstreamLimits = upstream.Limits{
		ConnectTimeout: settings.ConnectTimeout, HeaderTimeout: settings.HeaderTimeout, WriteTimeout: settings.IdleTimeout,
		BodyTimeout:    max(settings.UpstreamIdleTimeout, 0), // a negative value means no limit
		MaxHeaderBytes: settings.MaxHeaderBytes, MaxHeaderLines: settings.MaxHeaders,
	}
	if settings.Keys == nil {
		settings.Keys, _ = shardkey.New(shardkey.Spec{}) // the zero value is always valid
	}
	settings.setServices()
	return &settings
}

// Apply replaces the settings for all requests whose headers are read from now on. It closes idle
// connections to the app and to other nodes, because they were dialed with the old settings.
func (s *Server) Apply(next Settings) {
	s.replaceSettings(next.withDefaults())
	s.upstreams.RenewApps()
	s.upstreams.Peers.Renew()
}

// useSettings applies settings to the connection, from its next read on. It must not be called during a
// read.
func (c *client) useSettings(settings *Settings) {
	if settings == c.settings {
		return
	}
	c.settings, c.keys.TrustedProxies = settings, settings.TrustedProxies
	options := clientOptions(c.ingress, settings, &c.server.lingering)
	c.conn.SetTimeouts(options.Timeouts)
	c.conn.SetLimits(options.MaxHeaderBytes, options.MaxTargetBytes, options.MaxHeaderLines)
	c.clientAddr.Trusted = c.ingress == "" && forwarded.IsTrusted(c.clientAddr.Addr, settings.TrustedProxies)
}
