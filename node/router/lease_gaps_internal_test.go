package router

import (
	"testing"
	"time"
)

func TestLeaseGapCountsFromTheEndOfALease(t *testing.T) {
	const ms = time.Millisecond
	type set struct{ now, until time.Duration }
	for _, c := range []struct {
		name string
		sets []set
		at   time.Duration
		want time.Duration
	}{
		{"never a lease", nil, 700 * ms, 600 * ms},
		{"held", []set{{150 * ms, 600 * ms}}, 500 * ms, 50 * ms},
		{"over, and nobody has said so", []set{{150 * ms, 600 * ms}}, 700 * ms, 150 * ms},
		{"renewed in time", []set{{150 * ms, 600 * ms}, {250 * ms, 700 * ms}}, 700 * ms, 50 * ms},
		{"the same again", []set{{150 * ms, 600 * ms}, {160 * ms, 600 * ms}}, 600 * ms, 50 * ms},
		{"renewed too late", []set{{150 * ms, 600 * ms}, {604 * ms, 1000 * ms}}, 900 * ms, 54 * ms},
		{"over, seen later", []set{{150 * ms, 600 * ms}, {610 * ms, 0}, {630 * ms, 0}, {650 * ms, 1000 * ms}}, 900 * ms, 100 * ms},
		{"ended before its time", []set{{150 * ms, 600 * ms}, {300 * ms, 0}}, 400 * ms, 150 * ms},
		{"one that is over when it comes", []set{{150 * ms, 140 * ms}}, 200 * ms, 100 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newLeaseGaps(100 * ms)
			for _, s := range c.sets {
				a.setLease(s.now, s.until)
			}
			if got := a.total(c.at); got != c.want {
				t.Errorf("sum(%v) = %v, want %v", c.at, got, c.want)
			}
		})
	}
}
