package mux

import "sync"

// recvBuffer holds the received and unread bytes of a stream. A stream has one only while there
// are unread bytes, because most streams are idle most of the time.
type recvBuffer struct{ data []byte }

// minRecvBuffer is the capacity of a new buffer. A buffer that has grown beyond maxPooledBuffer is
// not pooled.
const (
	minRecvBuffer   = 4 << 10
	maxPooledBuffer = 16 << 10
)

var recvBuffers = sync.Pool{New: func() any { return &recvBuffer{data: make([]byte, 0, minRecvBuffer)} }} //nolint:gochecknoglobals // shared by all sessions

// newRecvBuffer returns an empty buffer from the pool.
func newRecvBuffer() *recvBuffer {
	rb, _ := recvBuffers.Get().(*recvBuffer)
	return rb
}

// release returns the buffer to the pool.
func (rb *recvBuffer) release() {
	if cap(rb.data) <= maxPooledBuffer {
		rb.data = rb.data[:0]
		recvBuffers.Put(rb)
	}
}

// makeRoom makes room for n more bytes in b, of which the first consumed bytes have been read. It
// returns the buffer and the new value of consumed. The buffer grows up to the window, which bounds
// the unread bytes. At that size the unread bytes move to the start instead. Few bytes move each time,
// because credit is announced in halves of the window.
func makeRoom(b []byte, consumed, n, window int) (_ []byte, newConsumed int) {
	unread := len(b) - consumed
	movingIsCheap := consumed >= unread || cap(b) >= window
	switch {
	case len(b)+n <= cap(b):
		return b, consumed
	case movingIsCheap && unread+n <= cap(b):
		return b[:copy(b, b[consumed:])], 0
	}
	doubled := min(2*cap(b), window)
	larger := make([]byte, unread, max(unread+n, doubled))
	copy(larger, b[consumed:])
	return larger, 0
}
