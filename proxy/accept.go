package proxy

import (
	"context"
	"crypto/tls"
	"net"

	"shardway/proxy/listener"
)

// stopAccepting stops all listeners, after the connections in their backlogs have been accepted.
func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return
	}
	s.closing.Store(true)
	if len(s.mu.listeners) == 0 {
		close(s.mu.listenersGone)
	}
	for ln := range s.mu.listeners {
		listener.Stop(ln)
	}
}

// listenersClosed returns a channel that is closed when no listener is left.
func (s *Server) listenersClosed() <-chan struct{} { return s.mu.listenersGone }

// handshakeTLS performs the TLS handshake of a connection that uses TLS, within HeaderTimeout. If
// it returns false, the connection has been closed.
func (s *Server) handshakeTLS(ctx context.Context, conn net.Conn) bool {
	c, ok := conn.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.settings.Load().HeaderTimeout)
	defer cancel()
	stop := context.AfterFunc(s.forceCtx, cancel) //nolint:contextcheck // ends with either
	defer stop()
	s.tick()
	s.handshakes.add(c, cancel, s.clock.Now())
	defer s.handshakes.remove(c)
	if err := c.HandshakeContext(ctx); err != nil {
		s.options.Log.Debug().Err(err).Stringer("addr", conn.RemoteAddr()).Msg("handshake failed")
		_ = conn.Close()
		return false
	}
	return true
}
