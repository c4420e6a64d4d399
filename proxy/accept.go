package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

const (
	// lastAccept is for how long one more connection is waited for once Shutdown
	// was called: those that the kernel has accepted by then are taken, for closing
	// the listener would reset them.
	lastAccept = 2 * time.Millisecond
	// lastAccepts bounds that where connections come in without a gap.
	lastAccepts = 250 * time.Millisecond
)

// acceptOne accepts a connection. After Shutdown it fails as soon as none waits:
// Go's Accept does not look at all when its deadline has passed, so each look
// gets a new one.
func (s *Server) acceptOne(ln net.Listener) (net.Conn, error) {
	if !s.isClosed() {
		conn, err := ln.Accept()
		if err == nil || !s.isClosed() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
	}
	d, ok := ln.(interface{ SetDeadline(t time.Time) error })
	if !ok || time.Since(s.closedAt()) > lastAccepts || d.SetDeadline(time.Now().Add(lastAccept)) != nil {
		return nil, net.ErrClosed
	}
	return ln.Accept()
}

// stopAccepting ends the listeners, after what waits at them has been taken.
func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return
	}
	s.mu.closedAt = time.Now()
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

// closedAt returns when Shutdown was called.
func (s *Server) closedAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.closedAt
}

// unlistened returns a channel that is closed once no listener is left.
func (s *Server) unlistened() <-chan struct{} { return s.mu.none }

// shake does the TLS handshake of a connection that needs one, within the time
// of a head. False means that the connection is closed.
func (s *Server) shake(ctx context.Context, conn net.Conn) bool {
	c, ok := conn.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.set.Load().HeadTimeout)
	defer cancel()
	stop := context.AfterFunc(s.hard, cancel)
	defer stop()
	if err := c.HandshakeContext(ctx); err != nil {
		s.o.Log.Debug().Err(err).Stringer("addr", conn.RemoteAddr()).Msg("handshake failed")
		_ = conn.Close()
		return false
	}
	return true
}
