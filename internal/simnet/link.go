package simnet

import (
	"math/rand/v2"
	"time"
)

// retransmit is how late the first repetition of a lost segment is; each
// further one doubles it.
const retransmit = 200 * time.Millisecond

// Link says how bytes travel from one host to another. The zero value is
// instant and loses nothing.
type Link struct {
	// Latency is the time one way.
	Latency time.Duration
	// Jitter adds up to so much, evenly distributed. Packets overtake each
	// other by it; streams keep their order.
	Jitter time.Duration
	// Loss is the probability that a packet, or one sending of a segment of a
	// stream, is lost. From 1 on the link is as good as cut.
	Loss float64
}

// delay returns the way of one packet that is not lost.
func (l Link) delay(r *rand.Rand) time.Duration {
	d := l.Latency
	if l.Jitter > 0 {
		d += time.Duration(r.Int64N(int64(l.Jitter)))
	}
	return d
}

// segment returns the way of one segment of a stream, repetitions included.
func (l Link) segment(r *rand.Rand) time.Duration {
	d := l.delay(r)
	again := retransmit
	for l.Loss > 0 && r.Float64() < l.Loss && again < time.Minute {
		d += again
		again *= 2
	}
	return d
}

// lost draws whether a packet is lost.
func (l Link) lost(r *rand.Rand) bool {
	return l.Loss > 0 && r.Float64() < l.Loss
}
