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
	// evictAfter is how long a connection must be idle before it is closed to make room for another
	// one. A connection that was just accepted is about to send its request.
	evictAfter = 2 * sweepEvery
	// A fraction of 1/evictFraction of all connections is closed at a time, so that not every new
	// connection causes a search for the longest idle one.
	evictFraction = 64
)

// acquireConnSlot takes a place for a connection that was accepted. At the limit it closes the
// connections that have been idle longest. While none is idle it waits, and the server accepts
// nothing.
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
				s.o.Log.Info().Msg("accepting resumed")
			}
			return
		case <-look.C:
		}
		if !paused {
			paused = true
			s.o.Log.Warn().Int("connections", cap(places)).
				Str("remedy", "raise --max-conns").Msg("accepting paused, connection limit reached")
		}
	}
}

// idleConn is a connection without a request.
type idleConn struct {
	since time.Duration
	close func()
}

// evictIdle closes up to most client connections that have been idle for at least least, the
// longest idle first. A connection in its TLS handshake counts as idle.
func (s *Server) evictIdle(least time.Duration, most int) {
	s.tick() // the sweep does not set the clock while there are handshakes only
	now := s.clock.now()
	s.conns.visit(nil, func(list []*client) {
		var all []idleConn
		for _, c := range list {
			since := time.Duration(c.idle.Load())
			if c.ingress == "" && since != 0 && now-since >= least && !c.evicted.Load() {
				all = append(all, idleConn{since, func() { c.evicted.Store(true); c.conn.StopIdle() }})
			}
		}
		all = s.conns.appendIdle(all, now, least)
		all = s.handshakes.appendIdle(all, now-least)
		slices.SortFunc(all, func(a, b idleConn) int { return cmp.Compare(a.since, b.since) })
		for _, i := range all[:min(most, len(all))] {
			i.close()
			s.metrics.shedIdle.Add(1)
		}
	})
}

// handshakes contains the connections whose TLS handshake is in progress.
type handshakes struct {
	mu  sync.Mutex
	all map[*tls.Conn]idleConn
}

func (h *handshakes) add(c *tls.Conn, cancel context.CancelFunc, now time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[*tls.Conn]idleConn)
	}
	h.all[c] = idleConn{now, cancel}
}

func (h *handshakes) remove(c *tls.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, c)
}

// appendIdle appends the connections whose handshake began at until or before.
func (h *handshakes) appendIdle(all []idleConn, until time.Duration) []idleConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.all {
		if i.since <= until {
			all = append(all, i)
		}
	}
	return all
}
