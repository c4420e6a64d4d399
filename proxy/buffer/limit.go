package buffer

import (
	"sync"

	"shardway/internal/linkedlist"
)

// Limit bounds the total memory of all clients' incomplete headers, or incomplete bodies. Above the
// limit, it cancels reading for the clients whose message began first, because they are the
// slowest. Messages that arrive in one piece, which almost all do, are never counted.
type Limit struct {
	mu           sync.Mutex
	totalBytes   int64
	reservations linkedlist.List[*Reservation] // in the order in which they began
}

// Reservation is the memory that one client occupies within a Limit. Limit.mu protects it.
type Reservation struct {
	cancelReading func()                           // ends the reading; any goroutine may call it until Release
	element       linkedlist.Element[*Reservation] // in no list if no memory is counted, or reading was cancelled
	bytes         int
	cancelled     bool // reading was cancelled, and Release has not been called
}

// Add adds size bytes to the reservation. While all reservations together exceed limit, it cancels
// reading for the oldest one. cancelledCount is the number of cancelled reservations. The only
// reservation is never cancelled.
func (l *Limit) Add(reservation *Reservation, size int, limit int64) (cancelledCount uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case reservation.cancelled:
		return 0
	case !reservation.element.InList():
		l.reservations.PushBack(&reservation.element, reservation)
	}
	reservation.bytes += size
	l.totalBytes += int64(size)
	for l.totalBytes > limit && l.reservations.Len() > 1 {
		oldest := l.reservations.First()
		l.remove(oldest)
		oldest.cancelled = true
		oldest.cancelReading()
		cancelledCount++
	}
	return cancelledCount
}

// Release ends the reservation, because the message is complete or has failed. It reports whether
// reading was cancelled.
func (l *Limit) Release(reservation *Reservation) (cancelled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cancelled, reservation.cancelled = reservation.cancelled, false
	if reservation.element.InList() {
		l.remove(reservation)
	}
	return cancelled
}

// remove removes a reservation from the total. The caller must hold mu.
func (l *Limit) remove(reservation *Reservation) {
	reservation.element.Remove()
	l.totalBytes -= int64(reservation.bytes)
	reservation.bytes = 0
}

// Size returns the sum of all reservations in bytes.
func (l *Limit) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totalBytes
}

// SetCancelReading sets the function that cancels reading the message. Until Release, any goroutine may
// call that function. SetCancelReading must be called before the first Add.
func (r *Reservation) SetCancelReading(cancelReading func()) { r.cancelReading = cancelReading }
