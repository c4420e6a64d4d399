package proxy

import (
	"container/list"
	"sync"
)

// heads bounds what partly read heads of clients keep, all together: the slowest
// are given up when it is too much. A head that comes whole, as nearly all do, is
// none of them.
type heads struct {
	mu    sync.Mutex
	bytes int64
	list  list.List // of *client, by when their head began
}

// more notes that a head keeps n bytes more, gives up the slowest while all of them
// keep more than limit, and returns how many it were.
func (h *heads) more(c *client, n int, limit int64) (shed uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case c.head.given:
		return 0
	case c.head.place == nil:
		c.head.place = h.list.PushBack(c)
	}
	c.head.bytes += n
	h.bytes += int64(n)
	for h.bytes > limit && h.list.Len() > 1 {
		slow, _ := h.list.Front().Value.(*client)
		h.drop(slow)
		slow.head.given = true
		slow.h.StopHead()
		shed++
	}
	return shed
}

// over notes that a head is there, or will not come.
func (h *heads) over(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.head.given = false; c.head.place != nil {
		h.drop(c)
	}
}

// drop counts a head no more. With mu held.
func (h *heads) drop(c *client) {
	h.list.Remove(c.head.place)
	h.bytes -= int64(c.head.bytes)
	c.head.place, c.head.bytes = nil, 0
}

// size returns what partly read heads keep.
func (h *heads) size() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// partly is what heads knows of one client, guarded by its mu.
type partly struct {
	place *list.Element // nil: no head is partly read, or it has been given up
	bytes int
	given bool // up, until it is over
}

// keepHead is told by the connection what a partly read head keeps.
func (c *client) keepHead(delta int) {
	if delta < 0 {
		c.s.heads.over(c)
		return
	}
	c.s.metrics.shedHeads.Add(c.s.heads.more(c, delta, c.s.set.Load().MaxHeadTotal))
}
