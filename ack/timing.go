package ack

import "time"

// Timing holds the durations of the protocol. All must be above zero but
// RestartGrace; package config checks the bounds between them.
type Timing struct {
	// Heartbeat is the time between two heartbeats of a node.
	Heartbeat time.Duration
	// Lease is the longest time for which a node may serve after a heartbeat.
	Lease time.Duration
	// DeadAfter is how long a node must have been granted nothing before its
	// shards are taken from it unasked.
	DeadAfter time.Duration
	// DrainTimeout is how long requests of a moving shard may run on.
	DrainTimeout time.Duration
	// RestartGrace makes the leader wait for the return of a crashed node before
	// it takes its shards. Zero: it does not wait.
	RestartGrace time.Duration
}

// DefaultTiming returns the defaults of DESIGN section 9.
func DefaultTiming() Timing {
	return Timing{
		Heartbeat:    100 * time.Millisecond,
		Lease:        500 * time.Millisecond,
		DeadAfter:    2500 * time.Millisecond,
		DrainTimeout: 5 * time.Second,
	}
}

const (
	// coalesce is how long a leader lets causes for a new map gather.
	coalesce = 20 * time.Millisecond
	// freshBeats is the age, in heartbeats, up to which an echoed answer shows
	// that both directions of the link work.
	freshBeats = 5
	// backStreak is the number of fresh heartbeats in a row that make a node
	// eligible.
	backStreak = 3
	// dampWindow, dampFirst and dampMost bound how often a node that misses
	// acknowledgements may come back (rule 3).
	dampWindow = 10 * time.Minute
	dampFirst  = 2 * time.Second
	dampMost   = 5 * time.Minute
)

// AckDeadline is how long a leader waits for acknowledgements of a proposal: the
// time that a node may drain, and one second for the messages.
func (t Timing) AckDeadline() time.Duration { return t.DrainTimeout + time.Second }

// CutAfter is how long after the end of its lease a node lets requests run on
// (why 3): it ends 15 % before another node may own the shard.
func (t Timing) CutAfter() time.Duration { return t.DeadAfter*85/100 - t.Lease }

// leaseEnd is how long after a grant its lease has certainly run out, whatever
// the holder's clock.
func (t Timing) leaseEnd() time.Duration { return t.Lease + t.Lease/10 }

// freshness is the age up to which an echoed answer is fresh.
func (t Timing) freshness() time.Duration { return freshBeats * t.Heartbeat }

// damping is the pause that the n-th missed acknowledgement in a row adds.
func damping(strikes uint32) time.Duration {
	if strikes < 2 {
		return 0
	}
	d := dampFirst
	for range strikes - 2 {
		if d *= 2; d >= dampMost {
			return dampMost
		}
	}
	return d
}

// Fence says what crash evidence is worth (DESIGN section 5).
type Fence uint8

// The fences.
const (
	// FenceLease takes a crashed node's shards once its lease has certainly run
	// out.
	FenceLease Fence = iota + 1
	// FenceStrict starts a round on crash evidence but waits for DeadAfter.
	FenceStrict
	// FenceRefused takes crash evidence at its word.
	FenceRefused
)
