package proxy

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
	"shardway/proxy/backoff"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
)

// poolOptions returns the options that the pools of all destinations have in common.
func (s *Server) poolOptions() connpool.Options {
	return connpool.Options{
		Clock: &s.clock.Clock, Life: s.lifeCtx, Dialers: &s.dialers, LongLived: &s.streams, Pacer: &s.webSockets.pacer,
		Queues: backoff.Queues{s.options.Queue, s.streamQueue, s.webSockets.queue},
	}
}

// newAppPool returns the pool of connections to the app.
func (s *Server) newAppPool() *connpool.Pool {
	options := s.poolOptions()
	options.Dial = s.dialUpstream
	if s.options.Handler != nil {
		options.Dial = s.newHandlerConn
	}
	options.MaxConns = s.options.MaxUpstreamConns
	options.MaxShardConns = max(s.options.MaxShardConns, 0) // a negative value means no limit
	options.CheckBeforeReuse = true
	return connpool.New(options)
}

// newPeerPool returns the pool of connections to another node.
func (s *Server) newPeerPool(node string) *connpool.Pool {
	options := s.poolOptions()
	options.Node, options.MaxIdle = node, s.options.PeerConns
	options.Dial = func(ctx context.Context) (*connpool.Conn, error) { return s.dialPeer(ctx, node) }
	options.OpenStream = func() *connpool.Conn { return s.openStream(node) }
	options.OpenWebSocketStream = func(ctx context.Context) *connpool.Conn { return s.openWebSocketStream(ctx, node) }
	return connpool.New(options)
}

// dialUpstream connects to the app.
func (s *Server) dialUpstream(ctx context.Context) (*connpool.Conn, error) {
	settings := s.settings.Load()
	ctx, cancel := context.WithTimeout(ctx, settings.ConnectTimeout)
	defer cancel()
	conn, err := s.options.DialUpstream(ctx)
	if err != nil {
		return nil, err
	}
	adopted := rawio.Adopt(conn)
	return s.newUpstreamConn(adopted, settings, h1.Options{
		Direct: direct(adopted), MaxHeaderBytes: settings.MaxHeaderBytes, MaxHeaderLines: settings.MaxHeaders,
		Timeouts: h1.Timeouts{Body: max(settings.UpstreamIdleTimeout, 0)}, // a negative value means no limit
	}), nil
}

// dialPeer opens a connection to another node. The owner limits the duration of a response.
func (s *Server) dialPeer(ctx context.Context, node string) (*connpool.Conn, error) {
	settings := s.settings.Load()
	ctx, cancel := context.WithTimeout(ctx, settings.ConnectTimeout)
	defer cancel()
	conn, err := s.options.Cluster.Dial(ctx, node)
	if err != nil {
		return nil, err
	}
	return s.newPeerConn(conn, settings), nil
}

// newPeerConn wraps a connection or a multiplexed stream to another node.
func (s *Server) newPeerConn(conn net.Conn, settings *Settings) *connpool.Conn {
	peerConn := s.newUpstreamConn(conn, settings, peerOptions(h1.Options{Direct: direct(conn)}, settings))
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
func (s *Server) newUpstreamConn(conn net.Conn, settings *Settings, options h1.Options) *connpool.Conn {
	upstream := &connpool.Conn{}
	// The sweep enforces the timeout for the first byte of the response.
	options.Timeouts.Header, options.Timeouts.Write = settings.HeaderTimeout, settings.IdleTimeout
	options.Buffers = &s.buffers
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
