package ack_test

import (
	"testing"
	"time"
)

// A leader with anything in progress needs its next step at once. Otherwise clients would wait
// up to a heartbeat longer. An idle leader needs a step within a heartbeat interval, because
// excuseStall excuses longer gaps.
func TestBusyLeaderIsDueAtOnce(t *testing.T) {
	d := newDue(t)
	d.pass(time.Second, func() bool { return len(d.inbox) == 0 && d.turn.Due() > 50*ms })
	if due := d.turn.DueWith("nothing", "b"); due <= 50*ms || due > 100*ms {
		t.Fatalf("it is due in %v before anything is the matter, want 50 to 100 ms", due)
	}
	for _, what := range []string{
		"no barrier", "an entry on its way", "the log of before", "a map to gather for", "a change that waits", "a later term",
		"a pause after a failure", "not heard", "evidence of a crash", "removed", "behind", "fresh long ago",
	} {
		if due := d.turn.DueWith(what, "b"); due > 0 {
			t.Errorf("%s: it is due in %v, want at once", what, due)
		}
		if due := d.turn.DueWith("nothing", "b"); due <= 0 {
			t.Fatalf("%s: it is due at once after that is over", what)
		}
	}
}
