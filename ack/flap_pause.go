package ack

import "time"

const (
	// flapWindow is how soon after one offence the next one counts as a repetition.
	flapWindow = 10 * time.Minute
	// dampFirst is the pause after the second offence; it doubles up to dampMost.
	firstFlapPause = 2 * time.Second
	maxFlapPause   = 5 * time.Minute
)

// damping returns how long a node stays out of the map in addition, after its n-th offence
// of one kind in a row: nothing after the first, 2 s after the second, and twice as long
// after each further one, up to 5 minutes.
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

// FlapCounter counts offences of one kind that follow each other within 10 minutes. The zero
// value has none. Times are readings of one clock that never goes back.
type FlapCounter struct {
	count uint32
	last  time.Duration
}

// Add counts one more. The count starts again at one, if the last one was more than 10
// minutes ago.
func (o *FlapCounter) Add(now time.Duration) { o.count, o.last = o.Count(now)+1, now }

// Count returns how many there were, and 0 once 10 minutes have passed since the last one.
func (o *FlapCounter) Count(now time.Duration) uint32 {
	if o.count == 0 || now-o.last > flapWindow {
		return 0
	}
	return o.count
}
