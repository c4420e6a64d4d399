package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// lastAccepts is for how long connections are still taken that the kernel had
// accepted when Shutdown was called: closing the listener would reset them.
const lastAccepts = 20 * time.Millisecond

// stopAccepting ends the listeners, after what waits at them has been taken.
func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Swap(true) {
		return
	}
	if len(s.mu.listeners) == 0 {
		close(s.mu.none)
	}
	for ln := range s.mu.listeners {
		d, ok := ln.(interface{ SetDeadline(t time.Time) error })
		if !ok || d.SetDeadline(time.Now().Add(lastAccepts)) != nil {
			_ = ln.Close()
		}
	}
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
