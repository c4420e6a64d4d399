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
	// evictAfter is for how long a connection has to be idle before it makes room for
	// another: one that has just come in is about to send its request.
	evictAfter = 2 * sweepEvery
	// evictFraction is which part of all connections makes room at once, so that looking
	// for the longest idle is not done for each newcomer.
	evictFraction = 64
)

// place takes a place for a connection that has been accepted. At the bound those
// that have been idle longest make room; while none is idle it waits, and nobody
// is accepted.
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

// idler is a connection that carries no request.
type idleConn struct {
	since time.Duration
	close func()
}

// evictIdle closes the connections of clients that have been idle for least, most of
// them at most, the longest idle first. One that does its TLS handshake is idle.
func (s *Server) evictIdle(least time.Duration, most int) {
	s.tick() // it stands while there are only handshakes
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

// shaking holds the connections whose TLS handshake is under way.
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

// appendIdle appends those that began no later than until.
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
