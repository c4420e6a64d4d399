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
	// shedAfter is for how long a connection has to be idle before it makes room for
	// another: one that has just come in is about to send its request.
	shedAfter = 2 * sweepEvery
	// shedShare is which part of all connections makes room at once, so that looking
	// for the longest idle is not done for each newcomer.
	shedShare = 64
)

// place takes a place for a connection that has been accepted. At the bound those
// that have been idle longest make room; while none is idle it waits, and nobody
// is accepted.
func (s *Server) place(places chan<- struct{}) {
	select {
	case places <- struct{}{}:
		return
	default:
	}
	look := time.NewTicker(sweepEvery)
	defer look.Stop()
	for paused := false; ; {
		s.shedIdle(shedAfter, max(1, cap(places)/shedShare))
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
type idler struct {
	since time.Duration
	close func()
}

// shedIdle closes the connections of clients that have been idle for least, most of
// them at most, the longest idle first. One that does its TLS handshake is idle.
func (s *Server) shedIdle(least time.Duration, most int) {
	s.tick() // it stands while there are only handshakes
	now := s.clock.now()
	s.conns.visit(nil, func(list []*client) {
		var all []idler
		for _, c := range list {
			since := time.Duration(c.idle.Load())
			if c.ingress == "" && since != 0 && now-since >= least && !c.shed.Load() {
				all = append(all, idler{since, func() { c.shed.Store(true); c.conn.StopIdle() }})
			}
		}
		all = s.conns.appendIdle(all, now, least)
		all = s.shaking.appendIdle(all, now-least)
		slices.SortFunc(all, func(a, b idler) int { return cmp.Compare(a.since, b.since) })
		for _, i := range all[:min(most, len(all))] {
			i.close()
			s.metrics.shedIdle.Add(1)
		}
	})
}

// shaking holds the connections whose TLS handshake is under way.
type shaking struct {
	mu  sync.Mutex
	all map[*tls.Conn]idler
}

func (h *shaking) add(c *tls.Conn, cancel context.CancelFunc, now time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[*tls.Conn]idler)
	}
	h.all[c] = idler{now, cancel}
}

func (h *shaking) remove(c *tls.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, c)
}

// appendIdle appends those that began no later than until.
func (h *shaking) appendIdle(all []idler, until time.Duration) []idler {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.all {
		if i.since <= until {
			all = append(all, i)
		}
	}
	return all
}
