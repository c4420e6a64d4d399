package simnet

import (
	"math/rand/v2"
	"time"
)

// retransmit is the delay of the first retransmission of a lost segment. Each further one
// doubles it.
const retransmit = 200 * time.Millisecond

// Link describes the transmission from one host to another. The zero value has no delay and
// no loss.
type Link struct {
	// Latency is the one-way delay.
	Latency time.Duration
	// Jitter is the maximum of an additional, uniformly distributed delay. It reorders
	// packets; streams keep their order.
	Jitter time.Duration
	// Loss is the probability that a packet, or one transmission of a segment, is lost.
	// With 1 or more the link is effectively cut.
	Loss float64
}

// packetDelay returns the delay of one packet that is not lost.
func (l Link) packetDelay(r *rand.Rand) time.Duration {
	d := l.Latency
	if l.Jitter > 0 {
		d += time.Duration(r.Int64N(int64(l.Jitter)))
	}
	return d
}

// segmentDelay returns the delay of one segment of a stream, including retransmissions.
func (l Link) segmentDelay(r *rand.Rand) time.Duration {
	d := l.packetDelay(r)
	again := retransmit
	for l.Loss > 0 && r.Float64() < l.Loss && again < time.Minute {
		d += again
		again *= 2
	}
	return d
}

// isPacketLost draws whether a packet is lost.
func (l Link) isPacketLost(r *rand.Rand) bool {
	return l.Loss > 0 && r.Float64() < l.Loss
}
