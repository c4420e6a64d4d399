package proxy

import (
	"container/list"
	"sync"
)

// memoryLimit limits the total memory of incomplete headers, or of incomplete bodies, of all
// clients. If they exceed the limit, reading is cancelled for the clients that began first, because
// they are the slowest. A message that arrives in one piece is never counted, and almost all
// messages do.
type memoryLimit struct {
	mu    sync.Mutex
	bytes int64
	list  list.List // of *reservation, in the order in which they began
}

// reservation is the memory of one client that counts towards a memoryLimit. The mu of the
// memoryLimit protects it.
type reservation struct {
	stop  func()        // ends the reading; any goroutine may call it until over
	place *list.Element // nil means that no memory is counted, or that reading was cancelled
	bytes int
	given bool // reading was cancelled, and over has not been called
}

// more adds n bytes to p. While all reservations together exceed limit, it cancels reading for the
// oldest one, and returns how many it has cancelled. A single reservation never exceeds the limit.
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

// over ends the reservation, because the message is complete or has failed. It reports whether
// reading was cancelled.
func (r *memoryLimit) over(p *reservation) (given bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	given, p.given = p.given, false
	if p.place != nil {
		r.drop(p)
	}
	return given
}

// drop removes a reservation. The caller holds mu.
func (r *memoryLimit) drop(p *reservation) {
	r.list.Remove(p.place)
	r.bytes -= int64(p.bytes)
	p.place, p.bytes = nil, 0
}

// size returns the sum of all reservations in bytes.
func (r *memoryLimit) size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// noteHeaderMemory is called by the connection when the memory of a partly read header changes. It
// also records that the client is no longer idle.
func (c *client) noteHeaderMemory(delta int) {
	c.idle.Store(0)
	if delta < 0 {
		c.s.headerMemory.over(&c.headerMemory)
		return
	}
	c.s.metrics.shedHeads.Add(c.s.headerMemory.more(&c.headerMemory, delta, c.s.set.Load().MaxHeaderBytesTotal))
}
