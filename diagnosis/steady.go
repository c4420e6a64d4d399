package diagnosis

import "time"

// Debouncer debounces a condition. Its output becomes true after the condition was true for OnDelay
// without interruption, and false after it was false for OffDelay. The zero value has no delay.
type Debouncer struct {
	OnDelay, OffDelay time.Duration

	output        bool
	changing      bool      // the condition differs from the output
	changingSince time.Time // if changing: when the condition began to differ
}

// Update records the current value of the condition and returns the output. now must not decrease
// from call to call.
func (d *Debouncer) Update(now time.Time, condition bool) bool {
	if condition == d.output {
		d.changing = false
		return d.output
	}
	if !d.changing {
		d.changing, d.changingSince = true, now
	}
	wait := d.OffDelay
	if condition {
		wait = d.OnDelay
	}
	if now.Sub(d.changingSince) >= wait {
		d.output, d.changing = condition, false
	}
	return d.output
}

// IsChanging reports whether the condition differs from the output, which will change after OnDelay
// or OffDelay unless the condition changes back.
func (d *Debouncer) IsChanging() bool { return d.changing }

// ConditionTimer measures how long a condition has been true without interruption.
type ConditionTimer struct{ since time.Time }

// Update records the current value of the condition and returns how long the condition has been
// true. The result is zero if the condition is false or has just become true.
func (t *ConditionTimer) Update(now time.Time, condition bool) time.Duration {
	switch {
	case !condition:
		t.since = time.Time{}
	case t.since.IsZero():
		t.since = now
	default:
		return now.Sub(t.since)
	}
	return 0
}

// BurstCounter measures the growth of a monotonic counter in its current burst. A burst ends when the counter
// has not grown for Window.
type BurstCounter struct {
	Window time.Duration

	initialized     bool      // Update was called
	lastEvent       time.Time // last call in which the counter had grown
	burstStartValue uint64    // value of the counter before the current burst
	lastValue       uint64    // value of the counter in the last call
}

// Update records the current value of the counter and returns its growth in the current burst. The
// first call only records the value, and returns 0.
func (c *BurstCounter) Update(now time.Time, counter uint64) uint64 {
	if !c.initialized {
		c.initialized, c.burstStartValue, c.lastValue = true, counter, counter
		return 0
	}
	if counter != c.lastValue {
		c.lastEvent, c.lastValue = now, counter
	} else if now.Sub(c.lastEvent) >= c.Window {
		c.burstStartValue = counter
	}
	return c.lastValue - c.burstStartValue
}
