package proxy

import (
	"container/list"
	"sync"
)

// memoryLimit bounds what clients' heads, or bodies, keep that are not whole yet, all
// together: those that began first, so the slowest, are given up when it is too
// much. What comes whole, as nearly all does, is none of them.
type memoryLimit struct {
	mu    sync.Mutex
	bytes int64
	list  list.List // of *portion, by when they began
}

// reservation is one client's part of a ration, guarded by its mu.
type reservation struct {
	stop  func()        // ends the reading; any goroutine may call it until over
	place *list.Element // nil: nothing is awaited, or it has been given up
	bytes int
	given bool // up, until it is over
}

// more notes that p keeps n bytes more, gives up the slowest while all of them keep
// more than limit, and returns how many it were. One alone is never too much.
func (r *memoryLimit) more(p *reservation, n int, limit int64) (shed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case p.given:
		return 0
	case p.place == nil:
		p.place = r.list.PushBack(p)
	}
	p.bytes += n
	r.bytes += int64(n)
	for r.bytes > limit && r.list.Len() > 1 {
		slow, _ := r.list.Front().Value.(*reservation)
		r.drop(slow)
		slow.given = true
		slow.stop()
		shed++
	}
	return shed
}

// over notes that p is whole, or will never be, and reports whether it was given up.
func (r *memoryLimit) over(p *reservation) (given bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	given, p.given = p.given, false
	if p.place != nil {
		r.drop(p)
	}
	return given
}

// drop counts a portion no more. With mu held.
func (r *memoryLimit) drop(p *reservation) {
	r.list.Remove(p.place)
	r.bytes -= int64(p.bytes)
	p.place, p.bytes = nil, 0
}

// size returns what all keep.
func (r *memoryLimit) size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// noteHeaderMemory is told by the connection what a partly read head keeps. Its client is not
// idle any more.
func (c *client) noteHeaderMemory(delta int) {
	c.idle.Store(0)
	if delta < 0 {
		c.s.headerMemory.over(&c.headerMemory)
		return
	}
	c.s.metrics.shedHeads.Add(c.s.headerMemory.more(&c.headerMemory, delta, c.s.set.Load().MaxHeaderBytesTotal))
}
