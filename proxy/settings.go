package proxy

import (
	"cmp"
	"net/netip"
	"time"

	"shardway/proxy/forwarded"
	"shardway/proxy/shardkey"
)

// Settings is the part of Options that may change while the Server runs: Apply
// swaps the whole value, which itself never changes. Each request reads it once,
// when its head is there, and goes by it to its end. Durations and sizes take
// their default when zero.
type Settings struct {
	// Keys finds the key of a request; nil means X-Shard-Key, else 400.
	Keys *shardkey.Keys
	// StreamGrace is for how long an upgraded connection or an event stream outlives
	// the move of its shard, or Shutdown; zero means 250 ms, negative not at all.
	StreamGrace time.Duration
	// CloseSockets keeps no WebSocket when its shard moves, whatever the app says.
	CloseSockets bool
	// DebugHeaders adds Shardway-Node and Shardway-Shard to answers.
	DebugHeaders bool
	// TrustedProxies are the peers whose X-Forwarded headers are believed and
	// appended to. Empty: nobody's.
	TrustedProxies []netip.Prefix
	// ProbePath, when set, is answered by the node itself on the app port, with
	// what Options.Probe says: 200, or 503 and the reason.
	ProbePath string
	// Forwarded adds the header Forwarded (RFC 7239) to X-Forwarded-*.
	Forwarded bool
	// Access gets a line per request of a client; nil means none, and costs
	// nothing.
	Access *Access

	// MaxHeaderBytes bounds a head in bytes, the first line included: a client's gets
	// 431, an app's 502. Zero means 64 KiB. A connection that waits for a request
	// when this, or one of the next two, changes reads one head by the old bound.
	MaxHeaderBytes int
	// MaxHeaderBytesTotal bounds what partly read heads of all clients keep together, in
	// steps of 8 KiB each; past it the slowest get 408. Zero means 64 MiB.
	MaxHeaderBytesTotal int64
	// MaxHeaders bounds the number of header lines likewise; zero means 256.
	MaxHeaders int
	// MaxURI bounds a request line, 414; zero means 16 KiB.
	MaxURI int
	// MaxBody bounds a request body, 413; zero means none.
	MaxBody int64
	// MaxBodyTotal bounds what all requests keep together, heads included, whose bodies
	// are read before they go on: those of known length up to Options.BodyBuffer, and
	// for a handler that takes no streams all. Past it the slowest get 408. Zero means
	// 256 MiB.
	MaxBodyTotal int64
	// MaxShardInflight bounds how many requests of one shard are under way at its owner, which
	// is this node, or in line for a connection to the app; past it 503. Streams and
	// upgraded connections do not count (Options.MaxStreams). Zero means any number.
	MaxShardInflight int
	// HeaderTimeout bounds the time from the first byte of a head to its end, and
	// that of a TLS handshake; zero means 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout bounds the wait for the next request, and for the next byte of
	// a body, in either direction on the client side; zero means 75 s.
	IdleTimeout time.Duration
	// MinBodyRate is how many bytes of a request's body have to come for each second
	// spent waiting for it, after the first 10 s of that; zero means 500, negative
	// none. Slower ones get 408.
	MinBodyRate int64
	// ConnectTimeout bounds one connect to app or peer; zero means 2 s.
	ConnectTimeout time.Duration
	// FirstByteTimeout bounds the app's time from the end of the request to the
	// first byte of its answer; zero means 5 minutes, negative none.
	FirstByteTimeout time.Duration
	// UpstreamIdleTimeout bounds the wait for the next bytes of an answer that
	// has begun; zero means 10 minutes, negative none. Upgraded connections may
	// be silent for as long as they like.
	UpstreamIdleTimeout time.Duration
}

// withDefaults returns s with every zero replaced.
func (s Settings) withDefaults() *Settings {
	s.StreamGrace = cmp.Or(s.StreamGrace, 250*time.Millisecond)
	s.MaxHeaderBytes = cmp.Or(s.MaxHeaderBytes, 64<<10)
	s.MaxHeaderBytesTotal = cmp.Or(s.MaxHeaderBytesTotal, 64<<20)
	s.MaxBodyTotal = cmp.Or(s.MaxBodyTotal, 256<<20)
	s.MaxHeaders = cmp.Or(s.MaxHeaders, 256)
	s.MaxURI = cmp.Or(s.MaxURI, 16<<10)
	s.HeaderTimeout = cmp.Or(s.HeaderTimeout, 10*time.Second)
	s.IdleTimeout = cmp.Or(s.IdleTimeout, 75*time.Second)
	s.MinBodyRate = cmp.Or(s.MinBodyRate, 500)
	s.ConnectTimeout = cmp.Or(s.ConnectTimeout, 2*time.Second)
	s.FirstByteTimeout = cmp.Or(s.FirstByteTimeout, 5*time.Minute)
	s.UpstreamIdleTimeout = cmp.Or(s.UpstreamIdleTimeout, 10*time.Minute)
	if s.Keys == nil {
		s.Keys, _ = shardkey.New(shardkey.Spec{}) // the zero value has no mistakes
	}
	return &s
}

// Apply replaces the settings, for every request whose head comes in from now
// on. Idle connections to the app and to other nodes are let go: they were
// made by the old ones.
func (s *Server) Apply(next Settings) {
	s.set.Store(next.withDefaults())
	if s.upstream != nil {
		s.upstream.renew()
	}
	s.peers.renew()
}

// use makes the settings those of the connection. Not while it is read.
func (c *client) use(set *Settings) {
	if set == c.set {
		return
	}
	c.set, c.keys.TrustedProxies = set, set.TrustedProxies
	o := c.s.clientOptions(c.ingress, set)
	c.conn.SetTimeouts(o.Timeouts)
	c.conn.SetLimits(o.MaxHeaderBytes, o.MaxTargetBytes, o.MaxHeaderLines)
	c.from.Trusted = c.ingress == "" && forwarded.IsTrusted(c.from.Addr, set.TrustedProxies)
}
