package diagnosis

import "time"

// Steady keeps a condition that flickers from getting into the inputs: it holds once the
// condition has held for On without a break, and holds no more once it has not for Off.
// The zero value follows at once.
type Steady struct {
	On, Off time.Duration

	holds, turning bool
	since          time.Time // of turning: when the condition became what holds is not
}

// Look takes what is so now, and returns what holds. Now must not run backwards.
func (s *Steady) Look(now time.Time, so bool) bool {
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

// Turns reports whether what was so last is not what holds, yet.
func (s *Steady) Turns() bool { return s.turning }

// For keeps since when a condition has held.
type For struct{ since time.Time }

// Look takes what is so now, and returns for how long that has been so; zero: it is not,
// or has just begun.
func (f *For) Look(now time.Time, so bool) time.Duration {
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

// Moments counts what happens now and then, for as long as it is lately.
type Moments struct {
	Lately time.Duration

	last  time.Time
	known bool
	from  uint64 // the counter before the present run
	upTo  uint64
}

// Look takes a counter, and returns by how much it has grown in the run of growth that is
// not over for Lately yet.
func (m *Moments) Look(now time.Time, counter uint64) uint64 {
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
