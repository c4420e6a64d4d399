package nativehist

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Bucket n has the upper bound 2^(n/8) seconds. A duration below the first bucket is treated as
// zero, and a duration above the last bucket counts in the last bucket.
const (
	schema      = 3
	perDoubling = 1 << schema
	firstBucket = -19*perDoubling + 1 // above 1.9 µs
	lastBucket  = 12 * perDoubling    // up to 4096 s
	// The classic buckets are those of whole doublings, from 2^-12 s (0.24 ms) to 2^5 s.
	firstClassic, lastClassic = -12, 5
)

// zeroBelow is the upper bound of durations that are treated as zero: 2^-19 s.
const zeroBelow = 1.0 / (1 << 19)

// Histogram counts durations. Unlike prometheus.Histogram, it takes no lock and looks nothing up.
// The number of durations is the sum of the buckets.
type Histogram struct {
	zero    atomic.Uint64
	buckets [lastBucket - firstBucket + 1]atomic.Uint64
	nanos   atomic.Int64
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	h.nanos.Add(int64(d))
	i := bucketNumber(d)
	if i < firstBucket {
		h.zero.Add(1)
		return
	}
	h.buckets[min(i, lastBucket)-firstBucket].Add(1)
}

// bucketNumber returns the number of the bucket of a duration: the smallest n with
// d <= 2^(n/8) s.
func bucketNumber(duration time.Duration) int {
	if duration <= 0 {
		return math.MinInt32
	}
	// Bounds within a doubling: 2^(i/8) for i = -8 to -1.
	bounds := [perDoubling]float64{
		0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048,
		0.7071067811865475, 0.7711054127039704, 0.8408964152537144, 0.9170040432046711,
	}
	frac, exp := math.Frexp(duration.Seconds())
	i := (exp - 1) * perDoubling
	for _, b := range bounds {
		if b >= frac {
			break
		}
		i++
	}
	return i
}

// Metric returns the counted durations as a metric, or nil if there are none yet. since is when
// counting began.
func (h *Histogram) Metric(desc *prometheus.Desc, since time.Time, labels ...string) prometheus.Metric {
	seconds := time.Duration(h.nanos.Load()).Seconds()
	zero := h.zero.Load()
	count, counts := zero, map[int]int64{}
	classic := make([]*dto.Bucket, 0, lastClassic-firstClassic+1)
	for i := range h.buckets {
		n := h.buckets[i].Load()
		if n > 0 {
			counts[i+firstBucket] = int64(n)
			count += n
		}
		if bucket := i + firstBucket; bucket%perDoubling == 0 && bucket >= firstClassic*perDoubling && bucket <= lastClassic*perDoubling {
			cumulative, bound := count, math.Exp2(float64(bucket/perDoubling))
			classic = append(classic, &dto.Bucket{CumulativeCount: &cumulative, UpperBound: &bound})
		}
	}
	if count == 0 {
		return nil
	}
	native, err := prometheus.NewConstNativeHistogram(desc, count, seconds, counts, nil, zero, schema, zeroBelow, since, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return withClassic{native, classic}
}

// withClassic is a native histogram that also has classic buckets.
type withClassic struct {
	prometheus.Metric
	buckets []*dto.Bucket
}

// Write writes the native histogram to metric, and adds the classic buckets.
func (c withClassic) Write(metric *dto.Metric) error {
	if err := c.Metric.Write(metric); err != nil {
		return err
	}
	metric.Histogram.Bucket = c.buckets
	return nil
}
