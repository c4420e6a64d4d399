package eventloop

// Eligibility decides whether the next request of a connection is served by an event loop. After a
// request that the event loop could not serve (a miss), the connection's goroutine serves the next
// skip requests. Each further miss doubles that number.
type Eligibility struct {
	skip     int // requests that the goroutine serves before the event loop gets another one
	nextSkip int // value of skip after the last miss
	streak   int // requests that the event loop has served since the last miss
}

const (
	minSkip = 16
	maxSkip = 1024
	// resetAfter is the number of requests that the event loop must serve before earlier misses are forgotten.
	resetAfter = 32
)

// RecordMiss records that the event loop could not serve a request.
func (e *Eligibility) RecordMiss() {
	e.nextSkip = min(max(2*e.nextSkip, minSkip), maxSkip)
	e.skip, e.streak = e.nextSkip, 0
}

// recordHit records that the event loop has served a request.
func (e *Eligibility) recordHit() {
	if e.streak++; e.streak == resetAfter {
		e.nextSkip = 0
	}
}

// skipNext makes the goroutine serve at least the next request.
func (e *Eligibility) skipNext() { e.skip = max(e.skip, 1) }
