package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/address"
	"shardway/internal/rawio"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
)

// Network opens connections to other nodes. The methods are safe for concurrent use.
type Network interface {
	// Dial opens a stream for forwarded requests to a node, over its own connection.
	Dial(ctx context.Context, node string) (net.Conn, error)
	// OpenStream opens a multiplexed stream to the node, for small requests with small responses.
	// It uses only a session on which data has arrived very recently. It never blocks, and returns
	// nil if no stream is available.
	OpenStream(node string) net.Conn
	// OpenWebSocketStream opens a multiplexed stream to the node for a WebSocket that may be
	// resumable. It uses a session on which data has arrived very recently, and may wait for one
	// until ctx ends. It returns nil if no stream is available.
	OpenWebSocketStream(ctx context.Context, node string) net.Conn
}

// Limits limits the connections to the app and to other nodes. A value never changes.
type Limits struct {
	ConnectTimeout time.Duration // of one dial
	HeaderTimeout  time.Duration // from the first byte of a header section to its end
	WriteTimeout   time.Duration // until the destination accepts the next bytes
	BodyTimeout    time.Duration // until the app sends the next bytes of a response; zero means no limit
	MaxHeaderBytes int           // of a header section of the app
	MaxHeaderLines int           // of a header section of the app
}

// dialer opens connections to the app and to other nodes under the current limits. Any goroutine
// may use it.
type dialer struct {
	network  Network
	dialApps []DialApp // by app instance; nil for an instance that is not configured
	limits   func() *Limits
	buffers  *h1.Buffers
	// multiplexes is set if small requests and WebSockets may use multiplexed streams.
	multiplexes bool
}

// DialApp opens a connection to an app instance.
type DialApp = func(ctx context.Context) (net.Conn, error)

// DialConn opens a connection for a pool.
type DialConn func(ctx context.Context) (*connpool.Conn, error)

// appDialers returns the functions that dial the app instances for a pool. nil stands for an instance
// that is not configured.
func (d *dialer) appDialers() []DialConn {
	dialers := make([]DialConn, len(d.dialApps))
	for i, dial := range d.dialApps {
		if dial != nil {
			dialers[i] = func(ctx context.Context) (*connpool.Conn, error) { return d.dialApp(ctx, dial) }
		}
	}
	return dialers
}

// dialApp connects to an app instance.
func (d *dialer) dialApp(ctx context.Context, dial DialApp) (*connpool.Conn, error) {
	limits := d.limits()
	ctx, cancel := context.WithTimeout(ctx, limits.ConnectTimeout)
	defer cancel()
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	return d.newAppConn(conn, limits), nil
}

// newAppConn returns the upstream connection for a new connection to the app.
func (d *dialer) newAppConn(conn net.Conn, limits *Limits) *connpool.Conn {
	adopted := rawio.Adopt(conn)
	return d.newConn(adopted, limits, h1.Options{
		Direct: rawio.IsDirect(adopted), MaxHeaderBytes: limits.MaxHeaderBytes, MaxHeaderLines: limits.MaxHeaderLines,
		Timeouts: h1.Timeouts{Body: limits.BodyTimeout},
	})
}

// dialPeer opens a connection to another node. The owner limits the duration of a response.
func (d *dialer) dialPeer(ctx context.Context, node string) (*connpool.Conn, error) {
	limits := d.limits()
	ctx, cancel := context.WithTimeout(ctx, limits.ConnectTimeout)
	defer cancel()
	conn, err := d.network.Dial(ctx, node)
	if err != nil {
		return nil, err
	}
	return d.newPeerConn(conn, limits), nil
}

// openStream opens a stream to a node. It returns nil if multiplexing is disabled or opening one
// would block.
func (d *dialer) openStream(node string) *connpool.Conn {
	if !d.multiplexes {
		return nil
	}
	conn := d.network.OpenStream(node)
	if conn == nil {
		return nil
	}
	return d.newPeerConn(conn, d.limits())
}

// webSocketStreamWait is how long a WebSocket waits for a multiplexed session before it uses a connection.
const webSocketStreamWait = time.Second

// openWebSocketStream opens a stream to a node for a WebSocket, or returns nil.
func (d *dialer) openWebSocketStream(ctx context.Context, node string) *connpool.Conn {
	if !d.multiplexes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, webSocketStreamWait)
	defer cancel()
	conn := d.network.OpenWebSocketStream(ctx, node)
	if conn == nil {
		return nil
	}
	peerConn := d.newPeerConn(conn, d.limits())
	peerConn.SingleUse = true
	return peerConn
}

// dialProbe opens a connection to an app instance that carries no request. The instance must be
// configured.
func (d *dialer) dialProbe(ctx context.Context, instance uint8) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits().ConnectTimeout)
	defer cancel()
	return d.dialApps[instance](ctx)
}

// newPeerConn wraps a connection or a multiplexed stream to another node.
func (d *dialer) newPeerConn(conn net.Conn, limits *Limits) *connpool.Conn {
	peerConn := d.newConn(conn, limits, PeerOptions(h1.Options{Direct: rawio.IsDirect(conn)}, limits))
	peerConn.Mux, _ = conn.(connpool.MuxStream)
	if peerConn.Mux != nil {
		conn = peerConn.Mux.SessionConn()
	}
	peerConn.Unencrypted = rawio.IsDirect(conn)
	if bootReporter, ok := conn.(interface{ Boot() uint64 }); ok {
		peerConn.Boot = bootReporter.Boot()
	}
	if n, ok := conn.(interface{ Nonce() uint64 }); ok {
		peerConn.Nonce = n.Nonce()
	}
	return peerConn
}

// newConn wraps a newly dialed connection for a pool. options contains the limits of its
// destination.
func (d *dialer) newConn(conn net.Conn, limits *Limits, options h1.Options) *connpool.Conn {
	upstreamConn := &connpool.Conn{}
	// The sweep of the proxy enforces the timeout for the first byte of the response.
	options.Timeouts.Header, options.Timeouts.Write = limits.HeaderTimeout, limits.WriteTimeout
	options.Buffers = d.buffers
	options.ReadBuffer = ReadBuffer
	upstreamConn.Conn = h1.NewConn(conn, options)
	upstreamConn.Checkable = upstreamConn.HasSocket()
	return upstreamConn
}

// ReadBuffer is the size of a read buffer for connections to the app and to other nodes. At this
// size, a response of about 10 KB is read with one system call.
const ReadBuffer = 32 << 10

// PeerOptions sets the header limits of connections between nodes. They must be large enough for
// any accepted header plus the fields that nodes add: the key, which takes up to three bytes per
// byte when encoded, and two copies of the host. A node then never rejects a header that another
// node has accepted.
func PeerOptions(options h1.Options, limits *Limits) h1.Options {
	options.MaxHeaderBytes = 4*limits.MaxHeaderBytes + 4<<10
	options.MaxHeaderLines = limits.MaxHeaderLines + 32
	options.MaxTargetBytes = options.MaxHeaderBytes
	return options
}

// URLDialer returns a function that connects to the app, for Options.DialUpstream of package proxy. text
// is the configured address of the app: http://HOST:PORT or unix:/PATH.
func URLDialer(text string) (func(ctx context.Context) (net.Conn, error), error) {
	upstream, err := address.ParseUpstream(text)
	if err != nil {
		return nil, fmt.Errorf("proxy: upstream %w", err)
	}
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	return func(ctx context.Context) (net.Conn, error) {
		return dialer.DialContext(ctx, upstream.Network, upstream.Address)
	}, nil
}

// UnreachableReason returns the reason why a connection could not be established or used, without
// addresses, because clients may see it. It writes the complete error to log.
func UnreachableReason(err error, log *zerolog.Logger) string {
	log.Debug().Err(err).Msg("destination unreachable")
	var errno syscall.Errno
	var network net.Error
	switch {
	case errors.Is(err, connpool.ErrDialing):
		return "no connection was made in time"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &network) && network.Timeout():
		return "timed out"
	}
	return "no connection"
}
