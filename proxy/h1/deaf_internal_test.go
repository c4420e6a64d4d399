package h1

import (
	"testing"
	"time"
)

// A path is dead when the other kernel owes an answer, was reminded more than once and
// has been silent for as long as that takes: a lost segment, a pause of the other
// machine or a connection on which nothing is owed is none.
func TestPathIsDeadWhenItWasRemindedInVain(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name      string
		p         path
		dead, ask bool
	}{
		{"nothing is owed", path{silent: time.Hour}, false, false},
		{"sent twice more, for a second in vain", path{resent: 2, unacked: 1000 * ms}, true, false},
		{"the same, though the other end speaks", path{resent: 2, unacked: 1000 * ms, silent: ms}, true, false},
		{"sent twice more, a moment ago", path{resent: 2, unacked: 999 * ms, silent: time.Hour}, false, false},
		{"sent once more", path{resent: 1, unacked: 10 * time.Second, silent: time.Hour, probes: 9}, false, false},
		{"probed once", path{probes: 1, silent: 1549 * ms}, false, false},
		{"probed once, and long ago", path{probes: 1, silent: 1550 * ms}, false, true},
		{"probed twice, silent for long", path{probes: 2, silent: 1625 * ms}, true, false},
		{"probed twice, heard of since", path{probes: 2, silent: 1624 * ms}, false, false},
	} {
		dead, ask, again := tc.p.judge()
		if dead != tc.dead || ask != tc.ask || again <= 0 {
			t.Errorf("%s: dead %v, ask %v, again in %v, want %v, %v", tc.name, dead, ask, again, tc.dead, tc.ask)
		}
	}
}
