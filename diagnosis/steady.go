package diagnosis

import "time"

// Debouncer debounces a condition. Its output becomes true after the condition was true for On without
// interruption, and false after it was false for Off. The zero value has no delay.
type Debouncer struct {
	On, Off time.Duration

	output, changing bool
	since            time.Time // if changing: when the condition began to differ from the output
}

// Update records the present value of the condition and returns the output. now must not decrease
// from call to call.
func (s *Debouncer) Update(now time.Time, condition bool) bool {
	if condition == s.output {
		s.changing = false
		return s.output
	}
	if !s.changing {
		s.changing, s.since = true, now
	}
	wait := s.Off
	if condition {
		wait = s.On
	}
	if now.Sub(s.since) >= wait {
		s.output, s.changing = condition, false
	}
	return s.output
}

// IsChanging reports whether the condition differs from the output, which will change after On or Off
// unless the condition changes back.
func (s *Debouncer) IsChanging() bool { return s.changing }

// TrueFor measures how long a condition has been true.
type TrueFor struct{ since time.Time }

// Update records the present value of the condition and returns how long the condition has been
// true. Zero means that it is false or has just become true.
func (f *TrueFor) Update(now time.Time, condition bool) time.Duration {
	switch {
	case !condition:
		f.since = time.Time{}
	case f.since.IsZero():
		f.since = now
	default:
		return now.Sub(f.since)
	}
	return 0
}

// RecentCount counts the recent events of a counter that only grows.
type RecentCount struct {
	Window time.Duration

	lastEvent   time.Time
	known       bool
	countBefore uint64 // value of the counter before the present series
	count       uint64
}

// Update records the present value of the counter and returns its growth in the present series of
// events. A series ends when the counter has not grown for Lately. The first call only records the
// value.
func (m *RecentCount) Update(now time.Time, counter uint64) uint64 {
	if !m.known {
		m.known, m.countBefore, m.count = true, counter, counter
		return 0
	}
	if counter != m.count {
		m.lastEvent, m.count = now, counter
	} else if now.Sub(m.lastEvent) >= m.Window {
		m.countBefore = counter
	}
	return m.count - m.countBefore
}
