package connset

import (
	"time"

	"github.com/rs/zerolog"
)

const (
	// evictAfter is how long a connection must be idle before it is closed in favor of another one.
	// A connection that has just been accepted will probably send its request soon.
	evictAfter = 2 * SweepInterval
	// At the limit, 1/evictFraction of all connections are closed at once. Otherwise each new
	// connection would cause a search for the connection that has been idle longest.
	evictFraction = 64
)

// Limit limits the open connections of a listener.
type Limit struct {
	slots chan struct{} // one element for each open connection except the newest
	log   zerolog.Logger
	evict func(minIdle time.Duration, maxCount int)
}

// NewLimit returns a limit of maxConns connections. evict closes up to maxCount connections that have
// been idle for at least minIdle.
func NewLimit(maxConns int, log zerolog.Logger, evict func(minIdle time.Duration, maxCount int)) *Limit {
	return &Limit{slots: make(chan struct{}, maxConns), log: log, evict: evict}
}

// Acquire reserves a slot for an accepted connection, until Release. At the limit, it closes the
// longest idle connections. If none is idle, it blocks, so that the caller accepts no further
// connections.
func (l *Limit) Acquire() {
	select {
	case l.slots <- struct{}{}:
		return
	default:
	}
	ticker := time.NewTicker(SweepInterval)
	defer ticker.Stop()
	for paused := false; ; {
		l.evict(evictAfter, max(1, cap(l.slots)/evictFraction))
		select {
		case l.slots <- struct{}{}:
			if paused {
				l.log.Info().Msg("accepting resumed")
			}
			return
		case <-ticker.C:
		}
		if !paused {
			paused = true
			l.log.Warn().Int("connections", cap(l.slots)).
				Str("remedy", "raise --max-conns").Msg("accepting paused, connection limit reached")
		}
	}
}

// Release frees the slot of a closed connection.
func (l *Limit) Release() { <-l.slots }
