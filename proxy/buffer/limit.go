package buffer

import (
	"container/list"
	"sync"
)

// Limit limits the total memory of incomplete headers, or of incomplete bodies, of all
// clients. If they exceed the limit, reading is cancelled for the clients that began first, because
// they are the slowest. A message that arrives in one piece is never counted, and almost all
// messages do.
type Limit struct {
	mu    sync.Mutex
	bytes int64
	list  list.List // of *Reservation, in the order in which they began
}

// Reservation is the memory of one client that counts towards a Limit. The mu of the Limit protects
// it.
type Reservation struct {
	stop      func()        // ends the reading; any goroutine may call it until Release
	place     *list.Element // nil means that no memory is counted, or that reading was cancelled
	bytes     int
	cancelled bool // reading was cancelled, and Release has not been called
}

// Add adds n bytes to p. While all reservations together exceed limit, it cancels reading for the
// oldest one, and returns how many it has cancelled. A single reservation never exceeds the limit.
func (l *Limit) Add(p *Reservation, n int, limit int64) (shed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.cancelled:
		return 0
	case p.place == nil:
		p.place = l.list.PushBack(p)
	}
	p.bytes += n
	l.bytes += int64(n)
	for l.bytes > limit && l.list.Len() > 1 {
		slow, _ := l.list.Front().Value.(*Reservation)
		l.drop(slow)
		slow.cancelled = true
		slow.stop()
		shed++
	}
	return shed
}

// Release ends the reservation, because the message is complete or has failed. It reports whether
// reading was cancelled.
func (l *Limit) Release(p *Reservation) (cancelled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cancelled, p.cancelled = p.cancelled, false
	if p.place != nil {
		l.drop(p)
	}
	return cancelled
}

// drop removes a reservation. The caller holds mu.
func (l *Limit) drop(p *Reservation) {
	l.list.Remove(p.place)
	l.bytes -= int64(p.bytes)
	p.place, p.bytes = nil, 0
}

// Size returns the sum of all reservations in bytes.
func (l *Limit) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// SetStop sets the function that ends the reading of the message. Any goroutine may call it until
// the reservation ends. SetStop must be called before the first Add.
func (p *Reservation) SetStop(stop func()) { p.stop = stop }
