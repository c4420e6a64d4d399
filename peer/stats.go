package peer

import "sync/atomic"

// Stats counts what happened on a Port since it was made.
type Stats struct {
	// Accepted counts the streams handed to handlers.
	Accepted uint64
	// Open counts those of them that are not closed.
	Open int
	// Refused counts the refused prefaces.
	Refused uint64
	// Broken counts the connections closed for garbage, silence or an end
	// before they were through the preface.
	Broken uint64
	// Evicted counts those of the broken that were closed to make room.
	Evicted uint64
}

// counters is Stats while it is being counted.
type counters struct {
	accepted, refused, broken, evicted atomic.Uint64
}

// Stats returns the counts of now.
func (p *Port) Stats() Stats {
	s := Stats{
		Accepted: p.counts.accepted.Load(),
		Refused:  p.counts.refused.Load(),
		Broken:   p.counts.broken.Load(),
		Evicted:  p.counts.evicted.Load(),
	}
	for k := range p.open {
		s.Open += int(p.open[k].Load())
	}
	return s
}
