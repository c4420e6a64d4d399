package queue

import "time"

// Options are the bounds of a Queue.
type Options struct {
	Requests int           // in the room at once; zero: 10 000, below zero: none may wait
	Bytes    int64         // of them all together; zero: 64 MiB, below zero: only requests without bytes
	Wait     time.Duration // of one request, from Enter on; zero: 15 s

	// Batch is how many are awakened at once after the table was replaced, until it has
	// shown how many may be; zero: 8.
	Batch int
	// Pace is how long an awakened request that is neither served nor waits again
	// keeps others from being awakened; zero: 50 ms.
	Pace time.Duration
	// CPUUsage says how much processor time this process has used so far, and how often another
	// one was given its processor. It is called under the Queue's lock. Nil or zeros: not known,
	// and it has as much as it needs.
	CPUUsage func() (used time.Duration, preempted int64)
	// FixedRate has it keep others from that in any case: what one who goes on does next takes
	// little time here, and much elsewhere.
	FixedRate bool
}

func (o Options) withDefaults() Options {
	if o.Requests == 0 {
		o.Requests = 10_000
	}
	if o.Bytes == 0 {
		o.Bytes = 64 << 20
	}
	if o.Wait <= 0 {
		o.Wait = 15 * time.Second
	}
	if o.Batch <= 0 {
		o.Batch = 8
	}
	if o.Pace <= 0 {
		o.Pace = 50 * time.Millisecond
	}
	return o
}
