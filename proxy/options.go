package proxy

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"shardway/queue"
)

// Options is what a Server is made from. Durations and sizes take their default
// when zero; where "none" makes sense, a negative value means it.
type Options struct {
	// Node is this node's id.
	Node string
	// Cluster is the node around the proxy.
	Cluster Cluster
	// Room is where requests wait. Its Wait is the queue-wait that bounds
	// everything a request waits for.
	Room *queue.Room
	// QueueWait is the Room's Wait again; zero means 10 s.
	QueueWait time.Duration
	// Log gets one debug line per failed request and a line per failed accept.
	Log zerolog.Logger

	// Keys finds the key of a request; nil means X-Shard-Key, else 400.
	Keys *Keys
	// DialUpstream opens a connection to the app; see DialURL. Nil is a gateway:
	// it serves no shard itself.
	DialUpstream func(ctx context.Context) (net.Conn, error)
	// UpstreamConns bounds connections to the app; zero means 1024.
	UpstreamConns int
	// PeerConns bounds idle forwarding streams kept per node; zero means 256.
	PeerConns int

	// BodyBuffer is how much of a request's body is kept so that it can go
	// again; zero means 64 KiB.
	BodyBuffer int
	// StreamGrace is for how long an upgraded connection outlives the move of
	// its shard; zero means 5 s, negative not at all.
	StreamGrace time.Duration
	// Expose adds Shardway-Node and Shardway-Shard to answers.
	Expose bool
	// TrustedProxies are the peers whose X-Forwarded headers are believed and
	// appended to. Empty: nobody's.
	TrustedProxies []netip.Prefix
	// ProbePath, when set, is answered by the node itself on the app port, with
	// what Probe says: 200, or 503 and the reason.
	ProbePath string
	Probe     func() (ready bool, reason string)

	// Forwarded adds the header Forwarded (RFC 7239) to X-Forwarded-*.
	Forwarded bool

	// MaxHead bounds a head in bytes, the first line included: a client's gets
	// 431, an app's 502. Zero means 64 KiB.
	MaxHead int
	// MaxHeaders bounds the number of header lines likewise; zero means 256.
	MaxHeaders int
	// MaxURI bounds a request line, 414; zero means 16 KiB.
	MaxURI int
	// MaxBody bounds a request body, 413; zero means none.
	MaxBody int64
	// MaxConns bounds client connections: at the bound accepting pauses. Zero
	// means 16384, less than the usual limit of file descriptors.
	MaxConns int
	// HeadTimeout bounds the time from the first byte of a head to its end; zero
	// means 10 s.
	HeadTimeout time.Duration
	// IdleTimeout bounds the wait for the next request, and for the next byte of
	// a body, in either direction on the client side; zero means 60 s.
	IdleTimeout time.Duration
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

// withDefaults returns o with every zero replaced.
func (o Options) withDefaults() Options {
	o.QueueWait = cmp.Or(o.QueueWait, 10*time.Second)
	o.UpstreamConns = cmp.Or(o.UpstreamConns, 1024)
	o.PeerConns = cmp.Or(o.PeerConns, 256)
	o.BodyBuffer = cmp.Or(o.BodyBuffer, 64<<10)
	o.StreamGrace = cmp.Or(o.StreamGrace, 5*time.Second)
	o.MaxHead = cmp.Or(o.MaxHead, 64<<10)
	o.MaxHeaders = cmp.Or(o.MaxHeaders, 256)
	o.MaxURI = cmp.Or(o.MaxURI, 16<<10)
	o.MaxConns = cmp.Or(o.MaxConns, 16384)
	o.HeadTimeout = cmp.Or(o.HeadTimeout, 10*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 60*time.Second)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 2*time.Second)
	o.FirstByteTimeout = cmp.Or(o.FirstByteTimeout, 5*time.Minute)
	o.UpstreamIdleTimeout = cmp.Or(o.UpstreamIdleTimeout, 10*time.Minute)
	if o.Keys == nil {
		o.Keys, _ = NewKeys(KeySpec{}) // the zero value has no mistakes
	}
	return o
}
