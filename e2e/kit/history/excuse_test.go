//go:build linux

package history_test

import (
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// Times of the following stories, in milliseconds after their start.
const (
	notice    = 250
	lease     = 500
	deadAfter = 2500
	open      = 100_000 // it never ends
)

// overlap is a story of one shard: a has a run with epoch 10, and then, or at the same
// time, b has one with epoch 11. Times are in milliseconds after the valid history.
type overlap struct {
	// old and next are the starts and ends of the two runs.
	old, next [2]int64
	cut       bool
	stream    bool
	stop      [2]int64   // pause of a
	waits     [][2]int64 // waits of the threads of a
	wake      int64
	other     bool     // the fault is of b, the reset between b and c
	kill      [2]int64 // kill of a, and its restart
	gone      int64    // when a is certainly dead; 0 means at once
	holds     bool     // a announces at kill that it ends
	reset     [2]int64 // between a and b
	takeover  string
}

func (o overlap) history() (history.History, history.Rules) {
	s := good()
	base := s.now
	at := func(t int64) int64 {
		if t == open {
			return 0
		}
		return (base + t) * ms
	}
	for i, run := range [][2]int64{o.old, o.next} {
		node, e := "a", uint64(10)
		if i == 1 {
			node, e = "b", 11
		}
		s.now = base + run[0]
		s.asked([]string{"old", "next"}[i], "GET", key(1), node, e, run[1]-run[0])
		s.Runs[len(s.Runs)-1].End = at(run[1])
	}
	for _, w := range o.waits {
		s.CPUWaits = append(s.CPUWaits, history.CPUWait{Node: "a", From: at(w[0]), Until: at(w[1])}, history.CPUWait{Node: "c", From: at(0), Until: at(9000)})
	}
	s.Runs[len(s.Runs)-2].Aborted = o.cut
	s.Runs[len(s.Runs)-2].Stream = o.stream
	for kind, when := range map[history.FaultKind][2]int64{history.Paused: o.stop, history.Reset: o.reset, history.Killed: o.kill} {
		if when == [2]int64{} {
			continue
		}
		f := history.Fault{Kind: kind, Node: "a", From: at(when[0]), Until: at(when[1])}
		if o.other {
			f.Node = "b"
		}
		if kind == history.Reset {
			f.Peer = string(f.Node[0] + 1)
		}
		if kind == history.Killed {
			f.ExitedBy, f.HoldsShards = max(f.From, at(o.gone)), o.holds
		}
		s.Faults = append(s.Faults, f)
	}
	return s.History, history.Rules{Shards: shards, Takeover: o.takeover, WakeTime: time.Duration(o.wake * ms)}
}

// Each excuse is tested just inside and just outside of its bounds.
func TestExcusesEndAtTheirBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		o    overlap
		want history.Report // only its counts of overlaps
	}{
		{"no fault", overlap{old: [2]int64{0, 4000}, next: [2]int64{3000, 3100}}, history.Report{}},
		{"ends as the next begins", overlap{old: [2]int64{0, 3000}, next: [2]int64{3000, 3100}, takeover: "none"}, history.Report{Handovers: 1}},

		{"pause", overlap{old: [2]int64{0, 4249}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}}, history.Report{PauseOverlaps: 1}},
		{"pause, and on for too long", overlap{old: [2]int64{0, 4250}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}}, history.Report{}},
		{"pause, and on while it has no processor", overlap{old: [2]int64{0, 4349}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}, waits: [][2]int64{{3900, 4050}, {4200, 4250}}}, history.Report{PauseOverlaps: 1}},
		{"pause, and on for longer than it has none", overlap{old: [2]int64{0, 4350}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}, waits: [][2]int64{{3900, 4050}, {4200, 4250}}}, history.Report{}},
		{"pause, and on while two threads have none, at once", overlap{old: [2]int64{0, 4350}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}, waits: [][2]int64{{4000, 4090}, {4010, 4050}, {4020, 4100}}}, history.Report{}},
		{"pause, and on while others have none", overlap{old: [2]int64{0, 4250}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}, waits: [][2]int64{{0, 3900}}}, history.Report{}},
		{"pause, and no processor for very long", overlap{old: [2]int64{0, 4000 + 3*notice - 1}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}, waits: [][2]int64{{4000, 9000}}}, history.Report{PauseOverlaps: 1}},
		{"pause, and no processor for too long", overlap{old: [2]int64{0, 4000 + 3*notice}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}, waits: [][2]int64{{4000, 9000}}}, history.Report{}},
		{"pause, and no processor for too long, where more may begin", overlap{old: [2]int64{0, 4000 + 3*notice}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}, waits: [][2]int64{{4000, 9000}}, wake: 100}, history.Report{}},
		{"no pause, and no processor", overlap{old: [2]int64{0, 4000}, next: [2]int64{3000, 3100}, waits: [][2]int64{{0, 9000}}}, history.Report{}},
		{"pause that lasts", overlap{old: [2]int64{0, open}, next: [2]int64{3000, 3100}, stop: [2]int64{500, open}}, history.Report{PauseOverlaps: 1}},
		{"pause that ended, of a run that does not", overlap{old: [2]int64{0, open}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}}, history.Report{}},
		{"pause as the next begins", overlap{old: [2]int64{0, 3200}, next: [2]int64{3000, 3100}, stop: [2]int64{3000, 3100}}, history.Report{PauseOverlaps: 1}},
		{"pause after the next began", overlap{old: [2]int64{0, 3200}, next: [2]int64{3000, 3100}, stop: [2]int64{3001, 3100}}, history.Report{}},
		{"started in the pause", overlap{old: [2]int64{999, 3200}, next: [2]int64{1100, 1200}, stop: [2]int64{500, 1000}}, history.Report{}},
		{"started in the pause, over in time", overlap{old: [2]int64{999, 1200}, next: [2]int64{1100, 1150}, stop: [2]int64{500, 1000}}, history.Report{PauseOverlaps: 1}},
		{"started as the pause ended", overlap{old: [2]int64{1000, 1200}, next: [2]int64{1100, 1150}, stop: [2]int64{500, 1000}}, history.Report{}},
		{"both begin in the pause, at once", overlap{old: [2]int64{600, 700}, next: [2]int64{600, 650}, stop: [2]int64{500, 1000}}, history.Report{PauseOverlaps: 1}},
		{"started after a short pause", overlap{old: [2]int64{520, 700}, next: [2]int64{600, 650}, stop: [2]int64{500, 510}, takeover: "lease"}, history.Report{}},
		{"started after a death, takeover immediate", overlap{old: [2]int64{520, 700}, next: [2]int64{600, 650}, kill: [2]int64{500, 510}, takeover: "immediate"}, history.Report{LateAbortOverlaps: 1}},
		{"death", overlap{old: [2]int64{0, 3100 + notice - 1}, next: [2]int64{3000, 3100}, kill: [2]int64{2900, 9500}, gone: 3100}, history.Report{PauseOverlaps: 1}},
		{"death, and on for too long", overlap{old: [2]int64{0, 3100 + notice}, next: [2]int64{3000, 3100}, kill: [2]int64{2900, 9500}, gone: 3100}, history.Report{}},
		{"death that takes long", overlap{old: [2]int64{0, 2700 + 2*notice - 1}, next: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, gone: 8950}, history.Report{PauseOverlaps: 1}},
		{"death that takes too long", overlap{old: [2]int64{0, 2700 + 2*notice}, next: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, gone: 8950}, history.Report{}},
		{"death that takes very long", overlap{old: [2]int64{0, 8900}, next: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, gone: 8950}, history.Report{}},
		{"death that takes long without a processor", overlap{old: [2]int64{0, 2700 + 2*notice + 99}, next: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, gone: 8950, waits: [][2]int64{{2600, 2800}}}, history.Report{PauseOverlaps: 1}},
		{"death that takes longer than it has none", overlap{old: [2]int64{0, 2700 + 2*notice + 100}, next: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, gone: 8950, waits: [][2]int64{{2600, 2800}}}, history.Report{}},
		{"death without a processor for very long", overlap{old: [2]int64{0, 2700 + 4*notice - 1}, next: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, gone: 8950, waits: [][2]int64{{0, 9000}}}, history.Report{PauseOverlaps: 1}},
		{"death without a processor for too long", overlap{old: [2]int64{0, 2700 + 4*notice}, next: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, gone: 8950, waits: [][2]int64{{0, 9000}}}, history.Report{}},
		{"gone as the next begins, as it said", overlap{old: [2]int64{0, 3000 + notice - 1}, next: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, gone: 3000, holds: true}, history.Report{PauseOverlaps: 1}},
		{"gone after the next began, as it said", overlap{old: [2]int64{0, 3001}, next: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, gone: 3001, holds: true}, history.Report{}},
		{"aborted by who says that it ends", overlap{old: [2]int64{0, 3249}, next: [2]int64{3000, 3100}, cut: true, kill: [2]int64{2700, 9500}, gone: 3251, holds: true}, history.Report{}},
		{"pause long over", overlap{old: [2]int64{0, 9000}, next: [2]int64{8000, 8100}, stop: [2]int64{500, 4000}}, history.Report{}},
		{"pause of the next owner", overlap{old: [2]int64{0, 4000}, next: [2]int64{3000, 3100}, stop: [2]int64{500, 4000}, other: true}, history.Report{}},

		{"aborted by the drain", overlap{old: [2]int64{0, 5249}, next: [2]int64{5000, 5100}, cut: true}, history.Report{LateAbortOverlaps: 1}},
		{"aborted by the drain, and on for too long", overlap{old: [2]int64{0, 5250}, next: [2]int64{5000, 5100}, cut: true}, history.Report{}},
		{"aborted before the drain was over", overlap{old: [2]int64{1, 5249}, next: [2]int64{5000, 5100}, cut: true, takeover: "lease"}, history.Report{}},
		{"stream aborted after its grace", overlap{old: [2]int64{0, 499}, next: [2]int64{250, 600}, cut: true, stream: true}, history.Report{LateAbortOverlaps: 1}},
		{"stream aborted after its grace, and on for too long", overlap{old: [2]int64{0, 500}, next: [2]int64{250, 600}, cut: true, stream: true}, history.Report{}},
		{"stream aborted before its grace was over", overlap{old: [2]int64{1, 499}, next: [2]int64{250, 600}, cut: true, stream: true, takeover: "lease"}, history.Report{}},
		{"stream that ended by itself", overlap{old: [2]int64{0, 499}, next: [2]int64{250, 600}, stream: true}, history.Report{}},
		{"no stream, aborted after the grace of streams", overlap{old: [2]int64{0, 499}, next: [2]int64{250, 600}, cut: true}, history.Report{}},
		{"aborted at a reset", overlap{old: [2]int64{0, 3249}, next: [2]int64{3000, 3100}, cut: true, reset: [2]int64{2000, 2500}}, history.Report{LateAbortOverlaps: 1}},
		{"aborted at a reset, and on for too long", overlap{old: [2]int64{0, 3250}, next: [2]int64{3000, 3100}, cut: true, reset: [2]int64{2000, 2500}}, history.Report{}},
		{"aborted, the reset long over", overlap{old: [2]int64{0, 3249}, next: [2]int64{3000, 3100}, cut: true, reset: [2]int64{100, 499}}, history.Report{}},

		{"reset", overlap{old: [2]int64{0, 5499}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset, takeover immediate", overlap{old: [2]int64{0, 5499}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, takeover: "immediate"}, history.Report{ResetOverlaps: 1}},
		{"reset, takeover timeout", overlap{old: [2]int64{0, 5499}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, takeover: "timeout"}, history.Report{}},
		{"reset, no takeover named", overlap{old: [2]int64{0, 5499}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}}, history.Report{}},
		{"reset, and on for too long", overlap{old: [2]int64{0, 3000 + deadAfter}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, takeover: "lease"}, history.Report{}},
		{"reset that lasts", overlap{old: [2]int64{0, 5499}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, open}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset, and a pause before it is aborted", overlap{old: [2]int64{0, 8249}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, stop: [2]int64{5499, 8000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset, a pause before it is aborted, and on for too long", overlap{old: [2]int64{0, 8250}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, stop: [2]int64{5499, 8000}, takeover: "lease"}, history.Report{}},
		{"reset, and a pause after it was to be aborted", overlap{old: [2]int64{0, 8249}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, stop: [2]int64{5500, 8000}, takeover: "lease"}, history.Report{}},
		{"reset, and a pause before it is aborted, takeover timeout", overlap{old: [2]int64{0, 8249}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, stop: [2]int64{5499, 8000}, takeover: "timeout"}, history.Report{}},
		{"reset that lasts, and on for ever", overlap{old: [2]int64{0, open}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, open}, takeover: "lease"}, history.Report{}},
		{"reset as the next begins", overlap{old: [2]int64{0, 3200}, next: [2]int64{3000, 3100}, reset: [2]int64{3000, 4000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset after the next began", overlap{old: [2]int64{0, 3200}, next: [2]int64{3000, 3100}, reset: [2]int64{3001, 4000}, takeover: "lease"}, history.Report{}},
		{"started in the reset", overlap{old: [2]int64{999, 2000}, next: [2]int64{1800, 1900}, reset: [2]int64{500, 1000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"started as the reset ended", overlap{old: [2]int64{1000, 2000}, next: [2]int64{1800, 1900}, reset: [2]int64{500, 1000}, takeover: "lease"}, history.Report{}},
		{"started after the reset, takeover immediate", overlap{old: [2]int64{1000 + notice + lease + notice - 1, 3000}, next: [2]int64{2500, 2600}, reset: [2]int64{500, 1000}, takeover: "immediate"}, history.Report{ResetOverlaps: 1}},
		{"started after the reset and a lease, takeover immediate", overlap{old: [2]int64{1000 + notice + lease + notice, 3000}, next: [2]int64{2500, 2600}, reset: [2]int64{500, 1000}, takeover: "immediate"}, history.Report{}},
		{"the next begins late after the reset", overlap{old: [2]int64{0, 3749}, next: [2]int64{3700, 3710}, reset: [2]int64{500, 1000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset long over", overlap{old: [2]int64{0, 1000 + notice + deadAfter}, next: [2]int64{3700, 3710}, reset: [2]int64{500, 1000}, takeover: "lease"}, history.Report{}},
		{"reset between others", overlap{old: [2]int64{0, 4000}, next: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, other: true, takeover: "lease"}, history.Report{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, rules := c.o.history()
			r := history.Check(h, rules)
			if r.PauseOverlaps != c.want.PauseOverlaps || r.ResetOverlaps != c.want.ResetOverlaps || r.LateAbortOverlaps != c.want.LateAbortOverlaps {
				t.Errorf("report = %v\n%v", r, r.Violations)
			}
			bad := 1
			if c.want.PauseOverlaps+c.want.ResetOverlaps+c.want.LateAbortOverlaps+c.want.Handovers > 0 {
				bad = 0
			}
			if r.Count(history.TwoOwners) != bad || len(r.Violations) != bad {
				t.Errorf("violations = %v, want %d", r.Violations, bad)
			}
		})
	}
}

// Runs of the old owner begin after the first run of the next owner. This is excused only
// with --takeover immediate, while the fault lasts that misled the cluster.
func TestOldOwnerMustNotBeginAfterNextOwner(t *testing.T) {
	next := [2]int64{1000, 1100}
	for _, c := range []struct {
		name string
		o    overlap
		want history.Report
	}{
		{"pause", overlap{old: [2]int64{1001, 1050}, stop: [2]int64{500, 4000}, takeover: "lease"}, history.Report{}},
		{"reset", overlap{old: [2]int64{1001, 1050}, reset: [2]int64{500, 4000}, takeover: "lease"}, history.Report{}},
		{"reset, takeover timeout", overlap{old: [2]int64{1001, 1050}, reset: [2]int64{500, 4000}, takeover: "timeout"}, history.Report{}},
		{"aborted", overlap{old: [2]int64{1001, 1050}, cut: true, takeover: "immediate"}, history.Report{}},
		{"no fault, takeover immediate", overlap{old: [2]int64{1001, 1050}, takeover: "immediate"}, history.Report{}},
		{"reset, takeover immediate", overlap{old: [2]int64{1001, 1050}, reset: [2]int64{500, 4000}, takeover: "immediate"}, history.Report{ResetOverlaps: 2}},
		{"reset, takeover immediate, until the lease ends", overlap{old: [2]int64{1000 + lease + notice - 1, 3499}, reset: [2]int64{500, 4000}, takeover: "immediate"}, history.Report{ResetOverlaps: 1}},
		{"reset, takeover immediate, after the lease", overlap{old: [2]int64{1000 + lease + notice, 3499}, reset: [2]int64{500, 4000}, takeover: "immediate"}, history.Report{}},
		{"reset, takeover immediate, on for too long", overlap{old: [2]int64{1200, 1000 + deadAfter}, reset: [2]int64{500, 4000}, takeover: "immediate"}, history.Report{}},
		{"reset, takeover immediate, between others", overlap{old: [2]int64{1001, 1050}, reset: [2]int64{500, 4000}, other: true, takeover: "immediate"}, history.Report{}},
		{"reset after the taking, takeover immediate", overlap{old: [2]int64{1002, 1050}, reset: [2]int64{1001, 4000}, takeover: "immediate"}, history.Report{}},
		{"kill, takeover immediate", overlap{old: [2]int64{1001, 1050}, kill: [2]int64{990, open}, takeover: "immediate"}, history.Report{LateAbortOverlaps: 2}},
		{"kill, takeover immediate, still on its way", overlap{old: [2]int64{990 + notice - 1, 990 + 2*notice - 1}, kill: [2]int64{990, open}, takeover: "immediate"}, history.Report{LateAbortOverlaps: 1}},
		{"kill, takeover immediate, started too late", overlap{old: [2]int64{990 + notice, 990 + 2*notice - 1}, kill: [2]int64{990, open}, takeover: "immediate"}, history.Report{}},
		{"kill, takeover immediate, on for too long", overlap{old: [2]int64{1150, 990 + 2*notice}, kill: [2]int64{990, open}, takeover: "immediate"}, history.Report{}},
		{"gone after the taking, as it said, takeover immediate", overlap{old: [2]int64{1001, 1050}, kill: [2]int64{990, open}, gone: 1060, holds: true, takeover: "immediate"}, history.Report{}},
		{"kill as it began, takeover immediate", overlap{old: [2]int64{1001, 1050}, kill: [2]int64{1000, open}, takeover: "immediate"}, history.Report{LateAbortOverlaps: 2}},
		{"kill after the taking, takeover immediate", overlap{old: [2]int64{1002, 1050}, kill: [2]int64{1001, open}, takeover: "immediate"}, history.Report{}},
		{"kill of the next owner, takeover immediate", overlap{old: [2]int64{1001, 1050}, kill: [2]int64{990, open}, other: true, takeover: "immediate"}, history.Report{}},
		{"kill", overlap{old: [2]int64{1001, 1050}, kill: [2]int64{990, open}, takeover: "lease"}, history.Report{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.next = next
			h, rules := c.o.history()
			r := history.Check(h, rules)
			if r.PauseOverlaps != c.want.PauseOverlaps || r.ResetOverlaps != c.want.ResetOverlaps || r.LateAbortOverlaps != c.want.LateAbortOverlaps {
				t.Errorf("report = %v\n%v", r, r.Violations)
			}
			stale, two := 1, 1
			if c.want.ResetOverlaps+c.want.LateAbortOverlaps > 0 {
				stale, two = 0, 0
			} else if c.o.old[0] >= next[1] {
				two = 0 // it began after the other had ended
			}
			if r.Count(history.StaleEpoch) != stale || r.Count(history.TwoOwners) != two || len(r.Violations) != stale+two {
				t.Errorf("violations = %v, want %d and %d", r.Violations, stale, two)
			}
		})
	}
}

// A node returns to an older epoch of its own, with all faults at once.
func TestOwnEpochMustNotDecrease(t *testing.T) {
	for _, takeover := range []string{"", "lease", "immediate"} {
		h, rules := overlap{old: [2]int64{1000, 1100}, next: [2]int64{900, 950}, stop: [2]int64{500, 4000}, reset: [2]int64{500, 4000}, cut: true, takeover: takeover}.history()
		for i := range h.Runs {
			if h.Runs[i].ID == "next" {
				h.Runs[i].App, h.Runs[i].Node, h.Responses[i].App = "a", "a", "a"
			}
		}
		r := history.Check(h, rules)
		if r.Count(history.StaleEpoch) != 1 || len(r.Violations) != 1 {
			t.Errorf("takeover %q: %v\n%v", takeover, r, r.Violations)
		}
	}
}

// Two runs of the old owner overlap one run of the next. One of them overlaps a pause,
// the other one began after the pause and ends earlier.
func TestEveryOverlapIsChecked(t *testing.T) {
	h, rules := overlap{old: [2]int64{0, 4200}, next: [2]int64{4100, 4150}, stop: [2]int64{500, 4000}}.history()
	s := &story{History: h, now: 3000 + 4050}
	s.asked("hidden", "GET", key(1), "a", 10, 140)
	r := history.Check(s.History, rules)
	if r.PauseOverlaps != 1 || r.Count(history.TwoOwners) != 1 || len(r.Violations) != 1 {
		t.Errorf("report = %v\n%v", r, r.Violations)
	}
}

// Two nodes run one epoch, with all faults at once.
func TestSharedEpochIsNeverExcused(t *testing.T) {
	for _, takeover := range []string{"", "lease", "immediate"} {
		h, rules := overlap{old: [2]int64{0, 3100}, next: [2]int64{3000, 3200}, cut: true, stop: [2]int64{500, 4000}, reset: [2]int64{500, 4000}, takeover: takeover}.history()
		for i := range h.Runs {
			h.Runs[i].Epoch = min(h.Runs[i].Epoch, 10)
		}
		r := history.Check(h, rules)
		if r.Count(history.SharedEpoch) != 1 || r.Count(history.TwoOwners) != 1 || len(r.Violations) != 2 {
			t.Errorf("takeover %q: %v", takeover, r.Violations)
		}
	}
}

// A Reset without nodes affects all nodes.
func TestResetWithoutNodesAffectsAll(t *testing.T) {
	for _, names := range [][2]string{{}, {"c", ""}, {"", "c"}, {"b", "a"}} {
		h, rules := overlap{old: [2]int64{0, 3100}, next: [2]int64{3000, 3200}, reset: [2]int64{500, 4000}, takeover: "lease"}.history()
		h.Faults[0].Node, h.Faults[0].Peer = names[0], names[1]
		if r := history.Check(h, rules); r.ResetOverlaps != 1 || r.Err() != nil {
			t.Errorf("reset between %q: %v", names, r)
		}
	}
}

// An app rejects a request because the store rejected its epoch. This is correct in an
// excused overlap, and otherwise a failure.
func TestFencedResponseNeedsAnOverlap(t *testing.T) {
	fenced := func(h history.History) *history.Response {
		for i := range h.Responses {
			if a := &h.Responses[i]; a.ID == "old" {
				a.Status = 409
				return a
			}
		}
		return nil
	}
	in := overlap{old: [2]int64{0, 3100}, next: [2]int64{3000, 3200}, stop: [2]int64{500, 4000}}
	h, rules := in.history()
	fenced(h)
	if r := history.Check(h, rules); r.FencedRequests != 1 || r.PauseOverlaps != 1 || r.Err() != nil {
		t.Errorf("in an overlap: %v", r)
	}
	h, rules = overlap{old: [2]int64{0, 2900}, next: [2]int64{3000, 3200}, stop: [2]int64{500, 4000}}.history()
	fenced(h)
	if r := history.Check(h, rules); r.FencedRequests != 0 || r.Count(history.Failed) != 1 || len(r.Violations) != 1 {
		t.Errorf("without an overlap: %v", r.Violations)
	}
	h, rules = in.history()
	fenced(h).Error = "shard-moved" // it is a response of the node
	if r := history.Check(h, rules); r.FencedRequests != 0 || r.Count(history.Failed) != 1 || len(r.Violations) != 1 {
		t.Errorf("of a node: %v", r.Violations)
	}
	h, rules = in.history()
	fenced(h).ID, fenced(h).EchoID = "nobody", "nobody"
	if r := history.Check(h, rules); r.Count(history.NoRun) != 1 {
		t.Errorf("without a run: %v", r.Violations)
	}
}
