package clock

import (
	"sync/atomic"
	"time"
)

// Manual is a Clock that moves only when told to. The zero value stands at its
// origin.
type Manual struct {
	now   atomic.Int64
	slept atomic.Int64
}

var _ Clock = (*Manual)(nil)

// Now returns the sum of all Advance calls.
func (m *Manual) Now() time.Duration { return time.Duration(m.now.Load()) }

// Precise returns the sum of all Advance and Suspend calls.
func (m *Manual) Precise() time.Duration {
	return time.Duration(m.now.Load() + m.slept.Load())
}

// Advance lets d pass.
func (m *Manual) Advance(d time.Duration) { m.now.Add(int64(d)) }

// Suspend lets d pass with the machine suspended: only Precise sees it.
func (m *Manual) Suspend(d time.Duration) { m.slept.Add(int64(d)) }
