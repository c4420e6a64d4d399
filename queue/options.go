package queue

import "time"

// DefaultWait is the maximum waiting time of a request unless Options.Wait is set.
const DefaultWait = 15 * time.Second

// Options configures a Queue.
type Options struct {
	// Requests is the maximum number of queued requests. Zero means 10,000. If it is negative, no
	// request may wait.
	Requests int
	// Bytes is the maximum total size of the queued requests. Zero means 64 MiB. If it is negative,
	// only requests of size 0 may wait.
	Bytes int64
	// Wait is the maximum total waiting time of one request, from Enter on. Zero means DefaultWait.
	Wait time.Duration

	// Batch is the number of tickets that are released at once when a release starts. The
	// number then grows as far as the process can keep up. Zero means 8.
	Batch int
	// Pace is the time after which a released ticket no longer counts against the limit,
	// even if it has neither left nor started to wait again. Zero means 50 ms.
	Pace time.Duration
	// CPUUsage returns the CPU time that this process has used so far, and how often the
	// kernel has preempted one of its threads. It is called with the lock of the Queue held.
	// If it is nil or returns zeros, the usage is unknown and counts as low.
	CPUUsage func() (used time.Duration, preempted int64)
	// FixedRate releases one batch per Pace, regardless of CPU usage and of released tickets
	// that have left. Use it when a released request costs little on this node but a lot on
	// another one.
	FixedRate bool
}

// withDefaults replaces zero values by their defaults.
func (o Options) withDefaults() Options {
	if o.Requests == 0 {
		o.Requests = 10_000
	}
	if o.Bytes == 0 {
		o.Bytes = 64 << 20
	}
	if o.Wait <= 0 {
		o.Wait = DefaultWait
	}
	if o.Batch <= 0 {
		o.Batch = 8
	}
	if o.Pace <= 0 {
		o.Pace = 50 * time.Millisecond
	}
	return o
}
