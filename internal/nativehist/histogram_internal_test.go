package nativehist

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Each duration is above the upper bound of the previous bucket, and not above the bound of its own.
func TestBucketsAreThoseOfSchemaThree(t *testing.T) {
	bound := func(i int) float64 { return math.Exp2(float64(i) / perDoubling) }
	check := func(d time.Duration) {
		if i := bucketNumber(d); d.Seconds() > bound(i)*(1+1e-14) || d.Seconds() <= bound(i-1)*(1-1e-14) {
			t.Errorf("%v: bucket %d (%v, %v]", d, i, bound(i-1), bound(i))
		}
	}
	for d := time.Duration(1); d < 5000*time.Second; d += d/97 + 1 {
		check(d)
	}
	for s := 1; s <= 4096; s *= 2 {
		if i, want := bucketNumber(time.Duration(s)*time.Second), perDoubling*int(math.Log2(float64(s))); i != want {
			t.Errorf("%d s: bucket %d, want %d: a bound belongs to its bucket", s, i, want)
		}
	}
}

func TestHistogramIsNativeAndClassic(t *testing.T) {
	var h Histogram
	desc := prometheus.NewDesc("shardway_test_seconds", "A test.", []string{"route"}, nil)
	if h.Metric(desc, time.Now(), "local") != nil {
		t.Error("a histogram without durations has a metric")
	}
	for _, d := range []time.Duration{-1, 0, time.Microsecond, time.Millisecond, time.Millisecond, time.Second, time.Second + 1, time.Hour, math.MaxInt64} {
		h.Observe(d)
	}
	h.nanos.Store(int64(3 * time.Second))
	var m dto.Metric
	if err := h.Metric(desc, time.Now(), "local").Write(&m); err != nil {
		t.Fatal(err)
	}
	x := m.GetHistogram()
	if x.GetSampleCount() != 9 || x.GetSampleSum() != 3 || x.GetZeroCount() != 3 || x.GetSchema() != 3 || len(x.GetPositiveSpan()) == 0 {
		t.Errorf("native: %v", x)
	}
	want := map[float64]uint64{math.Exp2(-12): 3, math.Exp2(-10): 3, math.Exp2(-9): 5, 0.5: 5, 1: 6, 2: 7, 32: 7}
	if len(x.GetBucket()) != 18 {
		t.Errorf("%d classic buckets", len(x.GetBucket()))
	}
	for _, b := range x.GetBucket() {
		if n, ok := want[b.GetUpperBound()]; ok && n != b.GetCumulativeCount() {
			t.Errorf("up to %v s: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), n)
		}
	}
}

func TestObservingAllocatesNothing(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Observe(1234567) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Observe(time.Duration(i%1e6) * 1e3)
	}
}
