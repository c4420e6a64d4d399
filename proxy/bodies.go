package proxy

import (
	"math/bits"
	"sync"
)

// smallBody is the size up to which the memory for a body stays with its
// connection.
const smallBody = 4 << 10

// bodies lends memory for the bodies that requests keep, in sizes that double from
// smallBody on, so that what a body is given grows with what has come of it. Any
// number of goroutines may use it.
type bodies struct {
	most  int           // of one body
	pools [32]sync.Pool // *[]byte of size i
}

// size returns the size of class i.
func (b *bodies) size(i int) int { return min(smallBody<<i, b.most) }

// class returns the smallest class with room for n bytes, which are b.most at most.
func (b *bodies) class(n int) int { return bits.Len(uint(max(n-1, 0) / smallBody)) }

// get returns an empty slice with room for n bytes, at most as many as may be.
func (b *bodies) get(n int) []byte {
	i := b.class(n)
	if p, ok := b.pools[i].Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 0, b.size(i))
}

// put takes p back. The caller keeps no reference to it.
func (b *bodies) put(p []byte) {
	if i := b.class(cap(p)); b.size(i) == cap(p) {
		p = p[:0]
		b.pools[i].Put(&p)
	}
}
