package mux

import "sync"

// recvBuffer holds the received and unread bytes of a stream. A stream has one only while there
// are unread bytes, because most streams are idle most of the time.
type recvBuffer struct{ b []byte }

// minRecvBuffer is the capacity of a new buffer. A buffer that has grown beyond maxPooledBuffer is
// not pooled.
const (
	minRecvBuffer   = 4 << 10
	maxPooledBuffer = 16 << 10
)

var recvBuffers = sync.Pool{New: func() any { return &recvBuffer{b: make([]byte, 0, minRecvBuffer)} }} //nolint:gochecknoglobals // shared by all sessions

// newRecvBuffer returns an empty buffer from the pool.
func newRecvBuffer() *recvBuffer {
	rb, _ := recvBuffers.Get().(*recvBuffer)
	return rb
}

// release returns the buffer to the pool.
func (rb *recvBuffer) release() {
	if cap(rb.b) <= maxPooledBuffer {
		rb.b = rb.b[:0]
		recvBuffers.Put(rb)
	}
}

// makeRoom makes room for n bytes in b, of which taken have been read. b grows up to the window,
// which bounds the unread bytes. At that size the unread bytes move to the start instead. Few
// bytes move each time, because credit is announced in halves of the window.
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
