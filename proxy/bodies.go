package proxy

import (
	"math/bits"
	"sync"
)

// smallBody is the maximum size of a body buffer that a connection keeps.
const smallBody = 4 << 10

// bodies is a pool of body buffers. Their sizes double from smallBody on, so that the buffer of a
// body grows with the data that has arrived. It is safe for concurrent use.
type bodies struct {
	most  int           // maximum size of a body
	pools [32]sync.Pool // *[]byte of size i
}

// size returns the size of class i.
func (b *bodies) size(i int) int { return min(smallBody<<i, b.most) }

// class returns the smallest class whose buffers have n bytes. n must not exceed most.
func (b *bodies) class(n int) int { return bits.Len(uint(max(n-1, 0) / smallBody)) }

// get returns an empty slice with a capacity of at least n bytes, limited to most.
func (b *bodies) get(n int) []byte {
	i := b.class(n)
	if p, ok := b.pools[i].Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 0, b.size(i))
}

// put returns p to the pool. The caller must not use p any more.
func (b *bodies) put(p []byte) {
	if i := b.class(cap(p)); b.size(i) == cap(p) {
		p = p[:0]
		b.pools[i].Put(&p)
	}
}
