package buffer

import (
	"math/bits"
	"sync"
)

// Small is the maximum size of a body buffer that a connection keeps.
const Small = 4 << 10

// Pool is a pool of body buffers. Their sizes double from Small on, so that the buffer of a
// body grows with the data that has arrived. It is safe for concurrent use after SetMax.
type Pool struct {
	max   int           // maximum size of a body
	pools [32]sync.Pool // *[]byte of size i
}

// size returns the size of class i.
func (b *Pool) size(i int) int { return min(Small<<i, b.max) }

// class returns the smallest class whose buffers have n bytes. n must not exceed max.
func (b *Pool) class(n int) int { return bits.Len(uint(max(n-1, 0) / Small)) }

// Get returns an empty slice with a capacity of at least n bytes, limited to the maximum size.
func (b *Pool) Get(n int) []byte {
	i := b.class(n)
	if p, ok := b.pools[i].Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 0, b.size(i))
}

// Put returns p to the pool. The caller must not use p any more.
func (b *Pool) Put(p []byte) {
	if i := b.class(cap(p)); b.size(i) == cap(p) {
		p = p[:0]
		b.pools[i].Put(&p)
	}
}

// SetMax sets the maximum size of a body. It must be called before any other method.
func (b *Pool) SetMax(n int) { b.max = n }
