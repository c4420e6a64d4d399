package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"slices"
	"sync"
	"time"
)

const (
	// evictAfter is how long a connection must be idle before it is closed in favor of another one.
	// A connection that has just been accepted will probably send its request soon.
	evictAfter = 2 * sweepEvery
	// At the limit, 1/evictFraction of all connections are closed at a time. Otherwise each new
	// connection would cause a search for the connection that has been idle longest.
	evictFraction = 64
)

// acquireConnSlot reserves a place for an accepted connection. At the limit, it closes the
// connections that have been idle longest. If none is idle, it blocks, so that the server accepts
// no further connections.
func (s *Server) acquireConnSlot(places chan<- struct{}) {
	select {
	case places <- struct{}{}:
		return
	default:
	}
	look := time.NewTicker(sweepEvery)
	defer look.Stop()
	for paused := false; ; {
		s.evictIdle(evictAfter, max(1, cap(places)/evictFraction))
		select {
		case places <- struct{}{}:
			if paused {
				s.options.Log.Info().Msg("accepting resumed")
			}
			return
		case <-look.C:
		}
		if !paused {
			paused = true
			s.options.Log.Warn().Int("connections", cap(places)).
				Str("remedy", "raise --max-conns").Msg("accepting paused, connection limit reached")
		}
	}
}

// idleConn is a connection without a request.
type idleConn struct {
	idleSince time.Duration
	close     func()
}

// evictIdle closes up to most client connections that have been idle for at least least, beginning
// with the longest idle ones. A connection in its TLS handshake is treated as idle.
func (s *Server) evictIdle(minIdle time.Duration, maxCount int) {
	s.tick() // if there are only handshakes, no sweep updates the clock
	now := s.clock.Now()
	s.conns.withClients(nil, func(list []*client) {
		var candidates []idleConn
		for _, c := range list {
			since := time.Duration(c.idleStart.Load())
			if c.ingress == "" && since != 0 && now-since >= minIdle && !c.evicted.Load() {
				candidates = append(candidates, idleConn{since, func() { c.evicted.Store(true); c.conn.StopWaiting() }})
			}
		}
		candidates = s.conns.appendIdle(candidates, now, minIdle)
		candidates = s.handshakes.appendIdle(candidates, now-minIdle)
		slices.SortFunc(candidates, func(first, second idleConn) int { return cmp.Compare(first.idleSince, second.idleSince) })
		for _, i := range candidates[:min(maxCount, len(candidates))] {
			i.close()
			s.metrics.ShedIdle.Add(1)
		}
	})
}

// handshakes contains the connections whose TLS handshake is in progress.
type handshakes struct {
	mu    sync.Mutex
	conns map[*tls.Conn]idleConn
}

func (h *handshakes) add(conn *tls.Conn, cancel context.CancelFunc, now time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns == nil {
		h.conns = make(map[*tls.Conn]idleConn)
	}
	h.conns[conn] = idleConn{now, cancel}
}

func (h *handshakes) remove(conn *tls.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, conn)
}

// appendIdle appends the connections whose handshake began at until or before.
func (h *handshakes) appendIdle(candidates []idleConn, deadline time.Duration) []idleConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, entry := range h.conns {
		if entry.idleSince <= deadline {
			candidates = append(candidates, entry)
		}
	}
	return candidates
}
