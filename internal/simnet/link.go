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
func (l Link) packetDelay(rng *rand.Rand) time.Duration {
	delay := l.Latency
	if l.Jitter > 0 {
		delay += time.Duration(rng.Int64N(int64(l.Jitter)))
	}
	return delay
}

// segmentDelay returns the delay of one segment of a stream, including retransmissions.
func (l Link) segmentDelay(rng *rand.Rand) time.Duration {
	delay := l.packetDelay(rng)
	timeout := retransmit
	for l.Loss > 0 && rng.Float64() < l.Loss && timeout < time.Minute {
		delay += timeout
		timeout *= 2
	}
	return delay
}

// isPacketLost draws whether a packet is lost.
func (l Link) isPacketLost(rng *rand.Rand) bool {
	return l.Loss > 0 && rng.Float64() < l.Loss
}
