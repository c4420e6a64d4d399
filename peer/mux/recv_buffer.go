package mux

import "sync"

// store is what a lane has received and nobody has read. It is borrowed while there is
// something: most lanes wait most of the time.
type recvBuffer struct{ b []byte }

// smallStore is what a fresh one has room for. One that has grown above keptStore is not
// lent again.
const (
	minRecvBuffer   = 4 << 10
	maxPooledBuffer = 16 << 10
)

var recvBuffers = sync.Pool{New: func() any { return &recvBuffer{b: make([]byte, 0, minRecvBuffer)} }} //nolint:gochecknoglobals // a pool is shared by all that lend from it

func newRecvBuffer() *recvBuffer {
	rb, _ := recvBuffers.Get().(*recvBuffer)
	return rb
}

func (rb *recvBuffer) release() {
	if cap(rb.b) <= maxPooledBuffer {
		rb.b = rb.b[:0]
		recvBuffers.Put(rb)
	}
}

// compact makes room for n bytes in b, of which taken have been read. It grows up to the window,
// which is all that can be unread, and moves what is unread to its start rather than that: at
// that size little at a time, for what has been read comes back as credit by halves.
func makeRoom(b []byte, taken, n, window int) (_ []byte, left int) {
	unread := len(b) - taken
	switch {
	case len(b)+n <= cap(b):
		return b, taken
	case unread+n <= cap(b) && (taken >= unread || cap(b) >= window):
		return b[:copy(b, b[taken:])], 0
	}
	more := make([]byte, unread, max(unread+n, min(2*cap(b), window)))
	copy(more, b[taken:])
	return more, 0
}
