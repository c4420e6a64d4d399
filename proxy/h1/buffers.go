package h1

import (
	"sync"
	"sync/atomic"
)

const (
	smallBuffer  = 8 << 10
	streamBuffer = 32 << 10
	largeBuffer  = 64 << 10
)

// Buffers is a pool of buffers of 8, 32 and 64 KiB. The zero value is ready to use. A nil *Buffers
// allocates each buffer. All methods are safe for concurrent use.
type Buffers struct {
	// BytesInUse counts the bytes of the buffers in use, for tests. nil means that they are not
	// counted.
	BytesInUse *atomic.Int64
	// BytesSpliced counts the bytes that the kernel has moved from socket to socket, for tests. nil
	// means that they are not counted.
	BytesSpliced *atomic.Int64

	small  sync.Pool // *[smallBuffer]byte
	stream sync.Pool // *[streamBuffer]byte
	large  sync.Pool // *[largeBuffer]byte
	pipes  pipes
}

// get returns a buffer of at least n bytes. Buffers above 64 KiB are not pooled; they are needed
// only if the operator has raised the header limit.
func (p *Buffers) get(n int) []byte {
	size := n
	switch {
	case n <= smallBuffer:
		size = smallBuffer
	case n <= streamBuffer:
		size = streamBuffer
	case n <= largeBuffer:
		size = largeBuffer
	}
	if p == nil {
		return make([]byte, size)
	}
	p.addInUse(size)
	switch size {
	case smallBuffer:
		if array, ok := p.small.Get().(*[smallBuffer]byte); ok {
			return array[:]
		}
	case streamBuffer:
		if array, ok := p.stream.Get().(*[streamBuffer]byte); ok {
			return array[:]
		}
	case largeBuffer:
		if array, ok := p.large.Get().(*[largeBuffer]byte); ok {
			return array[:]
		}
	}
	return make([]byte, size)
}

// addInUse adds n, which may be negative, to the number of bytes in use.
func (p *Buffers) addInUse(n int) {
	if p.BytesInUse != nil {
		p.BytesInUse.Add(int64(n))
	}
}

// put returns b to the pool. The caller must not use b any more.
func (p *Buffers) put(b []byte) {
	if p == nil {
		return
	}
	b = b[:cap(b)]
	p.addInUse(-len(b))
	switch len(b) {
	case smallBuffer:
		p.small.Put((*[smallBuffer]byte)(b))
	case streamBuffer:
		p.stream.Put((*[streamBuffer]byte)(b))
	case largeBuffer:
		p.large.Put((*[largeBuffer]byte)(b))
	}
}
