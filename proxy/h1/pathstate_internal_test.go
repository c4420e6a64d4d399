package h1

import (
	"testing"
	"time"
)

// A path is dead if the peer's kernel owes an acknowledgement, has been probed more than once, and has
// been silent for long enough. A lost segment, a pause of the other machine, or an idle connection
// does not make a path dead.
func TestPathIsDeadAfterUnansweredProbes(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name string
		p    path
		want PathState
		ask  bool
	}{
		{"nothing is owed", path{silent: time.Hour}, PathAlive, false},
		{"sent twice more, for long in vain", path{retransmits: 2, unacked: 800 * ms}, PathDead, false},
		{"the same, though the other end speaks", path{retransmits: 2, unacked: 800 * ms, silent: ms}, PathDead, false},
		{"sent twice more, a moment ago", path{retransmits: 2, unacked: 799 * ms, silent: time.Hour}, PathAlive, false},
		{"sent once more", path{retransmits: 1, unacked: 10 * time.Second, silent: time.Hour, probes: 9}, PathAlive, false},
		{"probed a moment ago", path{probes: 1, silent: 1074 * ms}, PathAlive, false},
		{"probed once", path{probes: 1, silent: 1549 * ms}, PathSuspect, false},
		{"probed once, and long ago", path{probes: 1, silent: 1550 * ms}, PathSuspect, true},
		{"probed twice, silent for long", path{probes: 2, silent: 1625 * ms}, PathDead, false},
		{"probed twice, a moment ago", path{probes: 2, silent: 1624 * ms}, PathSuspect, false},
	} {
		h, ask, again := tc.p.state()
		if h != tc.want || ask != tc.ask || again <= 0 {
			t.Errorf("%s: %v, ask %v, again in %v, want %v, %v", tc.name, h, ask, again, tc.want, tc.ask)
		}
	}
}
