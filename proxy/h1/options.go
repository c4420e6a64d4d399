package h1

import "time"

// Options configures a Conn. The zero value is usable.
type Options struct {
	// Buffers is the pool of the read and write buffers. nil means that each buffer is allocated.
	Buffers *Buffers
	// MaxHeaderBytes limits a header section in bytes, including the first line. Zero means 64 KiB.
	MaxHeaderBytes int
	// MaxTargetBytes limits the first line of a request in bytes. Zero means 16 KiB.
	MaxTargetBytes int
	// MaxHeaderLines limits the number of header lines. Zero means 256.
	MaxHeaderLines int
	// ReadBuffer is the initial size of the read buffer. Zero means 8 KiB, which suits clients. For
	// upstream connections, 32 KiB saves a system call for a response of 10 KiB.
	ReadBuffer int
	// Timeouts contains the initial timeouts. SetTimeouts replaces them.
	Timeouts Timeouts
	// OnHeaderMemory is called while a request header arrives in several parts; nil means that it is
	// not called. delta is the number of bytes by which the memory of the header has grown. When the
	// header is complete or has failed, OnHeaderMemory is called with the negative sum. Between the
	// first and the last call, StopHeader may be called.
	OnHeaderMemory func(delta int)
	// Direct promises that SyscallConn and Read see the same bytes, without TLS or read-ahead in
	// between. It is implied for *net.TCPConn and *net.UnixConn. An idle Conn then needs no buffer.
	Direct bool
	// CloseWriteAfterIdle makes a wait for a request that ends without data close the sending side
	// (FIN) of a plain socket, in the same step as the last check for data. Without it, a request
	// that arrives between that check and a later Close would be lost.
	CloseWriteAfterIdle bool
	// Lingering limits the number of lingering connections. nil means no limit.
	Lingering *Lingering
}

// Timeouts contains the time limits of a Conn. Zero means no limit. The limits are accurate to
// within 1/16: because setting a deadline is expensive, one that is close enough is kept.
type Timeouts struct {
	// FirstByte limits the wait for the first byte of a header. It limits the idle time of a client, or
	// the time to the first byte of a response.
	FirstByte time.Duration
	// Header limits the time for the rest of a header after its first byte.
	Header time.Duration
	// Body limits the wait for the next data of a body.
	Body time.Duration
	// Write limits the time of one write to the socket.
	Write time.Duration
	// MinRate is the minimum rate of a body in bytes per second, averaged over the time spent
	// waiting for data. Time in which no goroutine reads does not count. Zero means no minimum.
	MinRate int64
	// RateGrace is the total time spent waiting for a body before MinRate is enforced.
	RateGrace time.Duration
}

// withDefaults returns the options with the default of each limit that is not set.
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
