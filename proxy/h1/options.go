package h1

import "time"

// Options says how a Conn reads and writes. The zero value is usable.
type Options struct {
	// Buffers lends the read and write buffers. Nil: each is made anew.
	Buffers *Buffers
	// MaxHeaderBytes bounds a head, first line included. Zero: 64 KiB.
	MaxHeaderBytes int
	// MaxTargetBytes bounds the first line of a request. Zero: 16 KiB.
	MaxTargetBytes int
	// MaxHeaderLines bounds the number of header lines. Zero: 256.
	MaxHeaderLines int
	// ReadBuffer is the size a read buffer starts with. Zero: 8 KiB, right for
	// clients. 32 KiB saves a system call per answer of 10 KiB on the upstream
	// side.
	ReadBuffer int
	// Timeouts holds the first timeouts; SetTimeouts replaces them.
	Timeouts Timeouts
	// Partial, if not nil, is told of each head of a request that does not come at
	// once: how many bytes more its buffer holds, and when it is over, well or not,
	// all of them as fewer. From the first word to the last StopHeader may be called.
	Partial func(delta int)
	// Direct promises that what SyscallConn reads is what Read reads: no TLS,
	// nothing read ahead. It is implied for *net.TCPConn and *net.UnixConn, and
	// lets an idle Conn do without a buffer.
	Direct bool
	// EndIdle ends the sending side (FIN) of a plain socket once a wait for a request
	// is over and nothing has come, in the same step as the last look: whatever a client
	// sends between that look and a later Close is lost to it.
	EndIdle bool
	// Lingering bounds how many connections linger at the same time. Nil: no bound.
	Lingering *Lingering
}

// Timeouts bounds the waits of a Conn. Zero means no bound. They are kept to
// within a sixteenth: a deadline near enough is not set again.
type Timeouts struct {
	// First is how long the first byte of a head may take: a client's idle
	// time, or the time to the first byte of an answer.
	First time.Duration
	// Head is how long the rest of a head may take once it has begun.
	Header time.Duration
	// Body is how long a body may pause.
	Body time.Duration
	// Write is how long one write to the socket may take.
	Write time.Duration
	// Rate is how many bytes of a body have to come for each second that is spent
	// waiting for it, once Patience of that has passed. Time in which nobody asked
	// for more does not count. Zero: any rate.
	Rate     int64
	Patience time.Duration
}

func (o Options) withDefaults() Options {
	if o.MaxHeaderBytes <= 0 {
		o.MaxHeaderBytes = 64 << 10
	}
	if o.MaxTargetBytes <= 0 {
		o.MaxTargetBytes = 16 << 10
	}
	if o.MaxHeaderLines <= 0 {
		o.MaxHeaderLines = 256
	}
	if o.ReadBuffer <= 0 {
		o.ReadBuffer = smallBuffer
	}
	return o
}
