package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// acceptOne accepts a connection. After Shutdown, it first returns all connections that the kernel
// has already accepted, because closing the listener would reset them. After that it returns an
// error.
func (s *Server) acceptOne(ln net.Listener, p *rawAcceptor, last *[]net.Conn) (net.Conn, error) {
	if !s.isClosed() {
		if conn := p.take(); conn != nil {
			return conn, nil
		}
		conn, err := ln.Accept()
		if err == nil {
			conn = p.own(conn)
		}
		if err == nil || !s.isClosed() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
	}
	*last = append(*last, takeLast(ln)...)
	if n := len(*last) - 1; n >= 0 {
		conn := (*last)[n]
		*last = (*last)[:n]
		return conn, nil
	}
	return nil, net.ErrClosed
}

// stopAccepting stops all listeners, after the connections in their backlogs have been accepted.
func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return
	}
	s.closing.Store(true)
	if len(s.mu.listeners) == 0 {
		close(s.mu.none)
	}
	for ln := range s.mu.listeners {
		d, ok := ln.(interface{ SetDeadline(t time.Time) error })
		if !ok || d.SetDeadline(time.Now()) != nil {
			_ = ln.Close()
		}
	}
}

// unlistened returns a channel that is closed when no listener is left.
func (s *Server) unlistened() <-chan struct{} { return s.mu.none }

// shake performs the TLS handshake of a connection that uses TLS, within HeaderTimeout. If it
// returns false, the connection has been closed.
func (s *Server) shake(ctx context.Context, conn net.Conn) bool {
	c, ok := conn.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.set.Load().HeaderTimeout)
	defer cancel()
	stop := context.AfterFunc(s.forceCtx, cancel) //nolint:contextcheck // ends with either
	defer stop()
	s.tick()
	s.handshakes.add(c, cancel, s.clock.now())
	defer s.handshakes.remove(c)
	if err := c.HandshakeContext(ctx); err != nil {
		s.o.Log.Debug().Err(err).Stringer("addr", conn.RemoteAddr()).Msg("handshake failed")
		_ = conn.Close()
		return false
	}
	return true
}
