package connset

import (
	"cmp"
	"context"
	"crypto/tls"
	"slices"
	"time"
)

// IdleConn is a connection without a request.
type IdleConn struct {
	Since time.Duration // when it became idle, by the clock of the server
	Close func()
}

// EvictIdle closes up to maxCount client connections that have been idle since deadline or earlier,
// beginning with the longest idle ones. It returns the number of closed connections. idleSince returns
// when a connection became idle, by the clock of the server, and false for a connection that has a
// request or must not be closed. closeIdle closes a connection. A parked connection and a connection
// in its TLS handshake are idle.
func (s *Set[C]) EvictIdle(deadline time.Duration, maxCount int, idleSince func(c C) (time.Duration, bool), closeIdle func(c C)) (evicted int) {
	s.Visit(nil, func(all []C) {
		var candidates []IdleConn
		for _, c := range all {
			if since, ok := idleSince(c); ok && since <= deadline {
				candidates = append(candidates, IdleConn{Since: since, Close: func() { closeIdle(c) }})
			}
		}
		candidates = s.appendParked(candidates, deadline)
		candidates = s.appendHandshakes(candidates, deadline)
		slices.SortFunc(candidates, func(first, second IdleConn) int { return cmp.Compare(first.Since, second.Since) })
		candidates = candidates[:min(maxCount, len(candidates))]
		for _, idle := range candidates {
			idle.Close()
		}
		evicted = len(candidates)
	})
	return evicted
}

// AddHandshake adds a connection whose TLS handshake begins now, until RemoveHandshake. cancel ends the
// handshake.
func (s *Set[C]) AddHandshake(conn *tls.Conn, cancel context.CancelFunc, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handshakes[conn] = IdleConn{Since: now, Close: cancel}
}

// RemoveHandshake removes a connection whose TLS handshake has ended.
func (s *Set[C]) RemoveHandshake(conn *tls.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handshakes, conn)
}

// appendHandshakes appends the connections whose handshake began at deadline or earlier.
func (s *Set[C]) appendHandshakes(idle []IdleConn, deadline time.Duration) []IdleConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, handshake := range s.handshakes {
		if handshake.Since <= deadline {
			idle = append(idle, handshake)
		}
	}
	return idle
}
