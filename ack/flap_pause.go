package ack

import "time"

const (
	// flapWindow is the maximum time between two failures that count as consecutive.
	flapWindow = 10 * time.Minute
	// firstFlapPause is the pause after the second failure. It doubles up to maxFlapPause.
	firstFlapPause = 2 * time.Second
	maxFlapPause   = 5 * time.Minute
)

// flapPause returns how much longer a node stays out of the map after its n-th consecutive
// failure of one kind: nothing after the first, 2 s after the second, and twice as long after
// each further one, up to 5 minutes.
func flapPause(offences uint32) time.Duration {
	if offences < 2 {
		return 0
	}
	d := firstFlapPause
	for range offences - 2 {
		if d *= 2; d >= maxFlapPause {
			return maxFlapPause
		}
	}
	return d
}

// FlapCounter counts consecutive failures of one kind, at most 10 minutes apart. The zero
// value has none. Times must be of one clock that never runs backwards.
type FlapCounter struct {
	count uint32
	last  time.Duration
}

// Add counts one more failure. The count restarts at one if the last failure was more than 10
// minutes ago.
func (o *FlapCounter) Add(now time.Duration) { o.count, o.last = o.Count(now)+1, now }

// Count returns the number of failures. It is 0 once 10 minutes have passed since the last
// one.
func (o *FlapCounter) Count(now time.Duration) uint32 {
	if o.count == 0 || now-o.last > flapWindow {
		return 0
	}
	return o.count
}
