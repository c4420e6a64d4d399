package ack

import "time"

// FlapWindow is the maximum time between two failures that count as consecutive.
const FlapWindow = 10 * time.Minute

// FlapCounter counts consecutive failures of one kind, at most 10 minutes apart. The zero
// value has none. Times must be of one clock that never runs backwards.
type FlapCounter struct {
	count       uint32
	lastFailure time.Duration
}

// Add counts one more failure. The count restarts at one if the last failure was more than 10
// minutes ago.
func (fc *FlapCounter) Add(now time.Duration) { fc.count, fc.lastFailure = fc.Count(now)+1, now }

// Count returns the number of failures. It is 0 once 10 minutes have passed since the last
// one.
func (fc *FlapCounter) Count(now time.Duration) uint32 {
	if fc.count == 0 || now-fc.lastFailure > FlapWindow {
		return 0
	}
	return fc.count
}

const (
	// firstFlapPause is the pause after the second failure. It doubles up to maxFlapPause.
	firstFlapPause = 2 * time.Second
	maxFlapPause   = 5 * time.Minute
)

// FlapPause returns how much longer a node or an app instance stays without shards after this number of
// consecutive failures of one kind. It is zero after the first failure and 2 s after the second. Each
// further failure doubles it, up to 5 minutes.
func FlapPause(failures uint32) time.Duration {
	if failures < 2 {
		return 0
	}
	pause := firstFlapPause
	for range failures - 2 {
		if pause *= 2; pause >= maxFlapPause {
			return maxFlapPause
		}
	}
	return pause
}
