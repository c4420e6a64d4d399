package buffer

import (
	"math/bits"
	"sync"
)

// SmallSize is the maximum size of a body buffer that a connection keeps between requests, in
// bytes.
const SmallSize = 4 << 10

// Pool is a pool of body buffers. Their sizes double from class to class, beginning with SmallSize,
// so that the buffer of a body grows with the data that has arrived. It is safe for concurrent use
// after SetMaxSize.
type Pool struct {
	maxSize int           // maximum size of a body
	pools   [32]sync.Pool // *[]byte of size i
}

// classSize returns the buffer size of a class in bytes.
func (p *Pool) classSize(class int) int { return min(SmallSize<<class, p.maxSize) }

// sizeClass returns the smallest class whose buffers have at least size bytes. size must not exceed
// maxSize.
func (p *Pool) sizeClass(size int) int { return bits.Len(uint(max(size-1, 0) / SmallSize)) }

// Get returns an empty slice with a capacity of at least minSize bytes. minSize must not exceed the
// maximum size.
func (p *Pool) Get(minSize int) []byte {
	class := p.sizeClass(minSize)
	if buf, ok := p.pools[class].Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 0, p.classSize(class))
}

// Put returns buf to the pool. The caller must not use buf afterwards.
func (p *Pool) Put(buf []byte) {
	if class := p.sizeClass(cap(buf)); p.classSize(class) == cap(buf) {
		buf = buf[:0]
		p.pools[class].Put(&buf)
	}
}

// SetMaxSize sets the maximum size of a body. It must be called before any other method.
func (p *Pool) SetMaxSize(maxSize int) { p.maxSize = maxSize }
