package proxy

import (
	"container/list"
	"sync"
)

// ration bounds what clients' heads, or bodies, keep that are not whole yet, all
// together: those that began first, so the slowest, are given up when it is too
// much. What comes whole, as nearly all does, is none of them.
type ration struct {
	mu    sync.Mutex
	bytes int64
	list  list.List // of *portion, by when they began
}

// portion is one client's part of a ration, guarded by its mu.
type portion struct {
	stop  func()        // ends the reading; any goroutine may call it until over
	place *list.Element // nil: nothing is awaited, or it has been given up
	bytes int
	given bool // up, until it is over
}

// more notes that p keeps n bytes more, gives up the slowest while all of them keep
// more than limit, and returns how many it were. One alone is never too much.
func (r *ration) more(p *portion, n int, limit int64) (shed uint64) {
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
		slow, _ := r.list.Front().Value.(*portion)
		r.drop(slow)
		slow.given = true
		slow.stop()
		shed++
	}
	return shed
}

// over notes that p is whole, or will never be, and reports whether it was given up.
func (r *ration) over(p *portion) (given bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	given, p.given = p.given, false
	if p.place != nil {
		r.drop(p)
	}
	return given
}

// drop counts a portion no more. With mu held.
func (r *ration) drop(p *portion) {
	r.list.Remove(p.place)
	r.bytes -= int64(p.bytes)
	p.place, p.bytes = nil, 0
}

// size returns what all keep.
func (r *ration) size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// keepHead is told by the connection what a partly read head keeps. Its client is not
// idle any more.
func (c *client) keepHead(delta int) {
	c.idle.Store(0)
	if delta < 0 {
		c.s.heads.over(&c.head)
		return
	}
	c.s.metrics.shedHeads.Add(c.s.heads.more(&c.head, delta, c.s.set.Load().MaxHeaderBytesTotal))
}
