package peer

import "sync/atomic"

// Stats contains the counters of a Port since New.
type Stats struct {
	// Accepted is the number of streams passed to handlers.
	Accepted uint64
	// Open is the number of these streams that are not closed.
	Open int
	// Refused is the number of refused handshakes.
	Refused uint64
	// FailedHandshakes is the number of connections that were closed during the handshake because of invalid
	// data, silence or an early end.
	FailedHandshakes uint64
	// Evicted is the number of connections that were closed to make room for others. They also
	// count in FailedHandshakes.
	Evicted uint64
}

// counters are the counters behind Stats.
type counters struct {
	accepted, refused, failedHandshakes, evicted atomic.Uint64
}

// Stats returns the current counters.
func (p *Port) Stats() Stats {
	s := Stats{
		Accepted:         p.counts.accepted.Load(),
		Refused:          p.counts.refused.Load(),
		FailedHandshakes: p.counts.failedHandshakes.Load(),
		Evicted:          p.counts.evicted.Load(),
	}
	for k := range p.open {
		s.Open += int(p.open[k].Load())
	}
	return s
}
