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
func (s *Sample) Add(d time.Duration) { *s = append(*s, d) }

// Quantile returns the quantile q of the sample, or zero for an empty one.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// String returns median, p90 and maximum in milliseconds.
func (s Sample) String() string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s %s %s", millis(s.Quantile(0.5)), millis(s.Quantile(0.9)), millis(s.Quantile(1)))
}

func millis(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f", d.Seconds()*1000)
}
