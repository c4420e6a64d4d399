package node

import (
	"testing"
	"time"
)

func TestPauseIsReportedIfItCostTheLeaseOrIsLong(t *testing.T) {
	const ms = time.Millisecond
	const lease = 500 * ms
	type look struct {
		at     time.Duration
		leased bool
	}
	for name, x := range map[string]struct {
		gap, end time.Duration // the pause ends at 1 s
		looks    []look
		want     time.Duration // when the pause is reported; zero means never
	}{
		"renewed in time":              {gap: 130 * ms, end: 1300 * ms, looks: []look{{1000 * ms, false}, {1100 * ms, true}, {1400 * ms, true}}},
		"renewed, and lost later":      {gap: 130 * ms, end: 1300 * ms, looks: []look{{1100 * ms, true}, {1400 * ms, false}}},
		"not renewed":                  {gap: 130 * ms, end: 1300 * ms, looks: []look{{1000 * ms, false}, {1299 * ms, false}, {1300 * ms, false}}, want: 1300 * ms},
		"the lease ended within it":    {gap: 200 * ms, end: 950 * ms, want: time.Second},
		"longer than half a lease":     {gap: 251 * ms, end: 1300 * ms, want: time.Second},
		"half a lease":                 {gap: 250 * ms, end: 1300 * ms, looks: []look{{1100 * ms, true}}},
		"before the first lease":       {gap: 900 * ms, looks: []look{{1100 * ms, true}}},
		"without a lease, and a short": {gap: 200 * ms, looks: []look{{1100 * ms, false}, {1900 * ms, false}}},
	} {
		p := pendingPause{hadLease: x.end > 0 || x.want > 0}
		var told time.Duration
		if p.recordPause(time.Second, x.gap, lease, x.end) {
			told = time.Second
		}
		for _, l := range x.looks {
			if gap, lost := p.poll(l.at, l.leased); lost {
				if told != 0 || gap != x.gap {
					t.Errorf("%s: told again, or of %v", name, gap)
				}
				told = l.at
			}
		}
		if told != x.want {
			t.Errorf("%s: told at %v, want %v", name, told, x.want)
		}
	}
}
