package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/address"
	"shardway/internal/rawio"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
)

// dialer opens connections to the app and to other nodes, with the settings in force. Any goroutine
// may use it.
type dialer struct {
	cluster       Cluster
	dialUpstreams []dialUpstream // by app instance
	settings      *atomic.Pointer[Settings]
	buffers       *h1.Buffers
	multiplexes   bool // small requests and WebSockets may use multiplexed streams
}

// dialUpstream opens a connection to an app instance: Options.DialUpstream, or an element of
// Options.FurtherUpstreams.
type dialUpstream func(ctx context.Context) (net.Conn, error)

// upstreamDialers returns the functions that open connections to the app instances. It returns none
// for a gateway.
func (o *Options) upstreamDialers() []dialUpstream {
	if o.DialUpstream == nil && len(o.FurtherUpstreams) == 0 {
		return nil
	}
	dialers := []dialUpstream{o.DialUpstream}
	for _, dial := range o.FurtherUpstreams {
		dialers = append(dialers, dial)
	}
	return dialers
}

// appDialers returns the functions that dial the app instances for a pool. nil stands for an instance
// that is not configured.
func (dialer *dialer) appDialers() []dialApp {
	dialers := make([]dialApp, len(dialer.dialUpstreams))
	for i, dial := range dialer.dialUpstreams {
		if dial != nil {
			dialers[i] = func(ctx context.Context) (*connpool.Conn, error) { return dialer.dialApp(ctx, dial) }
		}
	}
	return dialers
}

// dialApp connects to an app instance.
func (dialer *dialer) dialApp(ctx context.Context, dial dialUpstream) (*connpool.Conn, error) {
	settings := dialer.settings.Load()
	ctx, cancel := context.WithTimeout(ctx, settings.ConnectTimeout)
	defer cancel()
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	return dialer.newAppConn(conn, settings), nil
}

// newAppConn returns the upstream connection for a new connection to the app.
func (dialer *dialer) newAppConn(conn net.Conn, settings *Settings) *connpool.Conn {
	adopted := rawio.Adopt(conn)
	return dialer.newUpstreamConn(adopted, settings, h1.Options{
		Direct: direct(adopted), MaxHeaderBytes: settings.MaxHeaderBytes, MaxHeaderLines: settings.MaxHeaders,
		Timeouts: h1.Timeouts{Body: max(settings.UpstreamIdleTimeout, 0)}, // a negative value means no limit
	})
}

// dialPeer opens a connection to another node. The owner limits the duration of a response.
func (dialer *dialer) dialPeer(ctx context.Context, node string) (*connpool.Conn, error) {
	settings := dialer.settings.Load()
	ctx, cancel := context.WithTimeout(ctx, settings.ConnectTimeout)
	defer cancel()
	conn, err := dialer.cluster.Dial(ctx, node)
	if err != nil {
		return nil, err
	}
	return dialer.newPeerConn(conn, settings), nil
}

// openStream opens a stream to a node. It returns nil if multiplexing is disabled, or if that is not
// possible without waiting.
func (dialer *dialer) openStream(node string) *connpool.Conn {
	if !dialer.multiplexes {
		return nil
	}
	conn := dialer.cluster.OpenStream(node)
	if conn == nil {
		return nil
	}
	return dialer.newPeerConn(conn, dialer.settings.Load())
}

// openWebSocketStream opens a stream to a node for a WebSocket, or returns nil.
func (dialer *dialer) openWebSocketStream(ctx context.Context, node string) *connpool.Conn {
	if !dialer.multiplexes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	conn := dialer.cluster.OpenWebSocketStream(ctx, node)
	if conn == nil {
		return nil
	}
	upstream := dialer.newPeerConn(conn, dialer.settings.Load())
	upstream.SingleUse = true
	return upstream
}

// dialProbe opens a connection to an app instance that carries no request. The instance must be
// configured.
func (dialer *dialer) dialProbe(ctx context.Context, instance uint8) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialer.settings.Load().ConnectTimeout)
	defer cancel()
	return dialer.dialUpstreams[instance](ctx)
}

// newPeerConn wraps a connection or a multiplexed stream to another node.
func (dialer *dialer) newPeerConn(conn net.Conn, settings *Settings) *connpool.Conn {
	peerConn := dialer.newUpstreamConn(conn, settings, peerOptions(h1.Options{Direct: direct(conn)}, settings))
	peerConn.Mux, _ = conn.(connpool.MuxStream)
	if peerConn.Mux != nil {
		conn = peerConn.Mux.SessionConn()
	}
	peerConn.Unencrypted = direct(conn)
	if bootReporter, ok := conn.(interface{ Boot() uint64 }); ok {
		peerConn.Boot = bootReporter.Boot()
	}
	if n, ok := conn.(interface{ Nonce() uint64 }); ok {
		peerConn.Nonce = n.Nonce()
	}
	return peerConn
}

// newUpstreamConn returns the connection of a pool for a connection that has just been dialed. options
// contains the limits of its destination.
func (dialer *dialer) newUpstreamConn(conn net.Conn, settings *Settings, options h1.Options) *connpool.Conn {
	upstream := &connpool.Conn{}
	// The sweep enforces the timeout for the first byte of the response.
	options.Timeouts.Header, options.Timeouts.Write = settings.HeaderTimeout, settings.IdleTimeout
	options.Buffers = dialer.buffers
	options.ReadBuffer = upstreamRead
	upstream.Conn = h1.NewConn(conn, options)
	upstream.Checkable = upstream.HasSocket()
	return upstream
}

// upstreamRead is the size of a read buffer for connections to the app and to other nodes. With it,
// reading a response of about 10 KB needs one system call.
const upstreamRead = 32 << 10

// direct reports whether the bytes of the connection are the bytes of its socket. That is not the
// case with TLS.
func direct(conn net.Conn) bool {
	connType, ok := conn.(interface{ Direct() bool })
	return ok && connType.Direct()
}

// peerOptions sets the header limits of connections between nodes. A header of a client or an app
// must fit, together with the fields that nodes add. Nodes repeat the key, with up to three bytes
// per byte because of its encoding, and the host twice. So a node never rejects a header that
// another node has accepted.
func peerOptions(options h1.Options, settings *Settings) h1.Options {
	options.MaxHeaderBytes = 4*settings.MaxHeaderBytes + 4<<10
	options.MaxHeaderLines = settings.MaxHeaders + 32
	options.MaxTargetBytes = options.MaxHeaderBytes
	return options
}

// DialURL returns a function for Options.DialUpstream. text is the configured address of the app:
// http://HOST:PORT or unix:/PATH.
func DialURL(text string) (func(ctx context.Context) (net.Conn, error), error) {
	upstream, err := address.ParseUpstream(text)
	if err != nil {
		return nil, fmt.Errorf("proxy: upstream %w", err)
	}
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	return func(ctx context.Context) (net.Conn, error) {
		return dialer.DialContext(ctx, upstream.Network, upstream.Address)
	}, nil
}

// unreachableReason returns the reason why a connection could not be established or used, without
// addresses, because a client may see it. It writes the complete error to log.
func unreachableReason(err error, log *zerolog.Logger) string {
	log.Debug().Err(err).Msg("not reached")
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
