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

// Buffers lends buffers of 8, 32 and 64 KiB. Its zero value is ready; a nil
// *Buffers makes each one anew. Any number of goroutines may use it.
type Buffers struct {
	// Lent counts the bytes of the buffers that are out, for tests. Nil: nobody counts.
	Lent *atomic.Int64
	// Spliced counts the bytes that went from socket to socket within the kernel, for
	// tests. Nil: nobody counts.
	Spliced *atomic.Int64

	small  sync.Pool // *[smallBuffer]byte
	stream sync.Pool // *[streamBuffer]byte
	large  sync.Pool // *[largeBuffer]byte
	pipes  pipes
}

// get returns a buffer of at least n bytes. Above 64 KiB it is made for the
// occasion: only a raised header limit asks for one.
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
	p.lend(size)
	switch size {
	case smallBuffer:
		if a, ok := p.small.Get().(*[smallBuffer]byte); ok {
			return a[:]
		}
	case streamBuffer:
		if a, ok := p.stream.Get().(*[streamBuffer]byte); ok {
			return a[:]
		}
	case largeBuffer:
		if a, ok := p.large.Get().(*[largeBuffer]byte); ok {
			return a[:]
		}
	}
	return make([]byte, size)
}

// lend counts n bytes that are out, or as many fewer.
func (p *Buffers) lend(n int) {
	if p.Lent != nil {
		p.Lent.Add(int64(n))
	}
}

// put takes b back. The caller keeps no reference to it.
func (p *Buffers) put(b []byte) {
	if p == nil {
		return
	}
	b = b[:cap(b)]
	p.lend(-len(b))
	switch len(b) {
	case smallBuffer:
		p.small.Put((*[smallBuffer]byte)(b))
	case streamBuffer:
		p.stream.Put((*[streamBuffer]byte)(b))
	case largeBuffer:
		p.large.Put((*[largeBuffer]byte)(b))
	}
}
