//go:build linux

package faults

import (
	"fmt"
	"slices"
	"time"
)

// Sample is a set of durations.
type Sample []time.Duration

// Add adds a duration.
func (s *Sample) Add(duration time.Duration) { *s = append(*s, duration) }

// Quantile returns the quantile for a fraction from 0 to 1, such as 0.5 for the median. It is zero for an
// empty sample.
func (s Sample) Quantile(fraction float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(fraction*float64(len(sorted))))]
}

// String returns median, p90 and maximum in milliseconds.
func (s Sample) String() string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s %s %s", millis(s.Quantile(0.5)), millis(s.Quantile(0.9)), millis(s.Quantile(1)))
}

func millis(duration time.Duration) string {
	if duration < 10*time.Millisecond {
		return fmt.Sprintf("%.1f", duration.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f", duration.Seconds()*1000)
}
