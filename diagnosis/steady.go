package diagnosis

import "time"

// Steady debounces a condition. Its output becomes true after the condition was true for On without
// interruption, and false after it was false for Off. The zero value has no delay.
type Steady struct {
	On, Off time.Duration

	holds, turning bool
	since          time.Time // if turning: when the condition began to differ from the output
}

// Update records the present value of the condition and returns the output. now must not decrease
// from call to call.
func (s *Steady) Update(now time.Time, so bool) bool {
	if so == s.holds {
		s.turning = false
		return s.holds
	}
	if !s.turning {
		s.turning, s.since = true, now
	}
	wait := s.Off
	if so {
		wait = s.On
	}
	if now.Sub(s.since) >= wait {
		s.holds, s.turning = so, false
	}
	return s.holds
}

// Turns reports whether the condition differs from the output, which will change after On or Off
// unless the condition changes back.
func (s *Steady) Turns() bool { return s.turning }

// For measures how long a condition has been true.
type For struct{ since time.Time }

// Update records the present value of the condition and returns how long the condition has been
// true. Zero means that it is false or has just become true.
func (f *For) Update(now time.Time, so bool) time.Duration {
	switch {
	case !so:
		f.since = time.Time{}
	case f.since.IsZero():
		f.since = now
	default:
		return now.Sub(f.since)
	}
	return 0
}

// Moments counts the recent events of a counter that only grows.
type Moments struct {
	Lately time.Duration

	last  time.Time
	known bool
	from  uint64 // value of the counter before the present series
	upTo  uint64
}

// Update records the present value of the counter and returns its growth in the present series of
// events. A series ends when the counter has not grown for Lately. The first call only records the
// value.
func (m *Moments) Update(now time.Time, counter uint64) uint64 {
	if !m.known {
		m.known, m.from, m.upTo = true, counter, counter
		return 0
	}
	if counter != m.upTo {
		m.last, m.upTo = now, counter
	} else if now.Sub(m.last) >= m.Lately {
		m.from = counter
	}
	return m.upTo - m.from
}
