package clock

import (
	"sync/atomic"
	"time"
)

// Manual is a Clock that advances only through its methods. The zero value is at its
// origin.
type Manual struct {
	now       atomic.Int64
	suspended atomic.Int64
}

var _ Clock = (*Manual)(nil)

// Now returns the sum of all Advance calls.
func (m *Manual) Now() time.Duration { return time.Duration(m.now.Load()) }

// Precise returns the sum of all Advance and Suspend calls.
func (m *Manual) Precise() time.Duration {
	return time.Duration(m.now.Load() + m.suspended.Load())
}

// Advance adds d to both variants of the time.
func (m *Manual) Advance(d time.Duration) { m.now.Add(int64(d)) }

// Suspend simulates a suspension of d: only Precise advances.
func (m *Manual) Suspend(d time.Duration) { m.suspended.Add(int64(d)) }
