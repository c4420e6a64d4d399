package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"shardway/internal/address"
	"shardway/internal/rawio"
	"shardway/proxy/backoff"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
)

// poolOptions returns the options that the pools of all destinations have in common.
func (s *Server) poolOptions() connpool.Options {
	return connpool.Options{
		Clock: &s.clock, Life: s.lifeCtx, Dialers: &s.dialers, LongLived: &s.streams, Pacer: &s.webSockets.pacer,
		Queues: backoff.Queues{s.options.Queue, s.streamQueue, s.webSockets.queue},
	}
}

// newAppPool returns the pool of connections to the app.
func (s *Server) newAppPool() *connpool.Pool {
	o := s.poolOptions()
	o.Dial = s.dialUpstream
	if s.options.Handler != nil {
		o.Dial = s.newHandlerConn
	}
	o.MaxConns, o.MaxShardConns, o.CheckBeforeReuse = s.options.MaxUpstreamConns, max(s.options.MaxShardConns, 0), true
	return connpool.New(o)
}

// newPeerPool returns the pool of connections to another node.
func (s *Server) newPeerPool(node string) *connpool.Pool {
	o := s.poolOptions()
	o.Node, o.MaxIdle = node, s.options.PeerConns
	o.Dial = func(ctx context.Context) (*connpool.Conn, error) { return s.dialPeer(ctx, node) }
	o.OpenStream = func() *connpool.Conn { return s.openStream(node) }
	o.OpenWebSocketStream = func(ctx context.Context) *connpool.Conn { return s.openWebSocketStream(ctx, node) }
	return connpool.New(o)
}

// dialUpstream connects to the app.
func (s *Server) dialUpstream(ctx context.Context) (*connpool.Conn, error) {
	set := s.settings.Load()
	ctx, cancel := context.WithTimeout(ctx, set.ConnectTimeout)
	defer cancel()
	conn, err := s.options.DialUpstream(ctx)
	if err != nil {
		return nil, err
	}
	adopted := rawio.Adopt(conn)
	return s.newUpstreamConn(adopted, set, h1.Options{
		Direct: direct(adopted), MaxHeaderBytes: set.MaxHeaderBytes, MaxHeaderLines: set.MaxHeaders, Timeouts: h1.Timeouts{Body: max(set.UpstreamIdleTimeout, 0)},
	}), nil
}

// dialPeer opens a connection to another node. The owner limits the duration of a response.
func (s *Server) dialPeer(ctx context.Context, node string) (*connpool.Conn, error) {
	set := s.settings.Load()
	ctx, cancel := context.WithTimeout(ctx, set.ConnectTimeout)
	defer cancel()
	conn, err := s.options.Cluster.Dial(ctx, node)
	if err != nil {
		return nil, err
	}
	return s.newPeerConn(conn, set), nil
}

// newPeerConn wraps a connection or a multiplexed stream to another node.
func (s *Server) newPeerConn(conn net.Conn, set *Settings) *connpool.Conn {
	l := s.newUpstreamConn(conn, set, peerOptions(h1.Options{Direct: direct(conn)}, set))
	l.Mux, _ = conn.(connpool.MuxStream)
	if l.Mux != nil {
		conn = l.Mux.SessionConn()
	}
	l.Unencrypted = direct(conn)
	if b, ok := conn.(interface{ Boot() uint64 }); ok {
		l.Boot = b.Boot()
	}
	if n, ok := conn.(interface{ Nonce() uint64 }); ok {
		l.Nonce = n.Nonce()
	}
	return l
}

// newUpstreamConn returns an upstreamConn for a connection that has just been dialed.
func (s *Server) newUpstreamConn(conn net.Conn, set *Settings, o h1.Options) *connpool.Conn {
	l := &connpool.Conn{}
	// The sweep enforces the timeout for the first byte of the response.
	o.Timeouts.Header, o.Timeouts.Write = set.HeaderTimeout, set.IdleTimeout
	o.Buffers = &s.buffers
	o.ReadBuffer = upstreamRead
	l.Conn = h1.NewConn(conn, o)
	l.Checkable = l.HasSocket()
	return l
}

// upstreamRead is the size of a read buffer for connections to the app and to other nodes. With it,
// reading a response of about 10 KB needs one system call.
const upstreamRead = 32 << 10

// direct reports whether the bytes of the connection are the bytes of its socket. That is not the
// case with TLS.
func direct(conn net.Conn) bool {
	d, ok := conn.(interface{ Direct() bool })
	return ok && d.Direct()
}

// peerOptions sets the header limits of connections between nodes. A header of a client or an app
// must fit, together with the fields that nodes add. Nodes repeat the key, with up to three bytes
// per byte because of its encoding, and the host twice. So a node never rejects a header that
// another node has accepted.
func peerOptions(o h1.Options, set *Settings) h1.Options {
	o.MaxHeaderBytes = 4*set.MaxHeaderBytes + 4<<10
	o.MaxHeaderLines = set.MaxHeaders + 32
	o.MaxTargetBytes = o.MaxHeaderBytes
	return o
}

// DialURL returns a function for Options.DialUpstream. text is the configured address of the app:
// http://HOST:PORT or unix:/PATH.
func DialURL(text string) (func(ctx context.Context) (net.Conn, error), error) {
	u, err := address.ParseUpstream(text)
	if err != nil {
		return nil, fmt.Errorf("proxy: upstream %w", err)
	}
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	return func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, u.Network, u.Address) }, nil
}

// unreachableReason returns the reason why a connection could not be established or used, without
// addresses, because a client may see it. The complete error is logged.
func (s *Server) unreachableReason(err error) string {
	s.options.Log.Debug().Err(err).Msg("not reached")
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
