//go:build linux

package history_test

import (
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// Times in milliseconds after the start of a history.
const (
	notice    = 250
	lease     = 500
	deadAfter = 2500
	open      = 100_000 // it never ends
)

// overlap describes a history of one shard: a has a run with epoch 10, and then, or at the same
// time, b has one with epoch 11. Times are in milliseconds after the valid history.
type overlap struct {
	oldRun, nextRun [2]int64 // start and end
	aborted         bool     // the old run was aborted
	stream          bool     // the old run is a stream

	// Faults of a, as start and end. The zero value means no fault.
	pause [2]int64
	kill  [2]int64 // from the kill to the restart
	reset [2]int64 // between a and b

	otherNode   bool       // the fault is one of b, and the reset is between b and c
	deadBy      int64      // when a is certainly dead; 0 means at once
	holdsShards bool       // a announces its exit at the kill
	cpuWaits    [][2]int64 // waits of the threads of a
	wakeTime    int64
	takeover    string
}

// history returns the history, and the rules for its check.
func (o overlap) history() (history.History, history.Rules) {
	builder := validHistory()
	base := builder.now
	at := func(offset int64) int64 {
		if offset == open {
			return 0
		}
		return (base + offset) * ms
	}
	addRun := func(id, node string, epoch uint64, run [2]int64) {
		builder.now = base + run[0]
		builder.addRequest(id, "GET", key(1), node, epoch, run[1]-run[0])
		builder.Runs[len(builder.Runs)-1].End = at(run[1])
	}
	addRun("old", "a", 10, o.oldRun)
	addRun("next", "b", 11, o.nextRun)
	for _, wait := range o.cpuWaits {
		builder.CPUWaits = append(builder.CPUWaits, history.CPUWait{Node: "a", From: at(wait[0]), Until: at(wait[1])}, history.CPUWait{Node: "c", From: at(0), Until: at(9000)})
	}
	oldRun := &builder.Runs[len(builder.Runs)-2]
	oldRun.Aborted, oldRun.Stream = o.aborted, o.stream
	for kind, period := range map[history.FaultKind][2]int64{history.Paused: o.pause, history.Reset: o.reset, history.Killed: o.kill} {
		if period == [2]int64{} {
			continue
		}
		fault := history.Fault{Kind: kind, Node: "a", From: at(period[0]), Until: at(period[1])}
		if o.otherNode {
			fault.Node = "b"
		}
		if kind == history.Reset {
			fault.Peer = string(fault.Node[0] + 1)
		}
		if kind == history.Killed {
			fault.LatestExit, fault.HoldsShards = max(fault.From, at(o.deadBy)), o.holdsShards
		}
		builder.Faults = append(builder.Faults, fault)
	}
	return builder.History, history.Rules{Shards: shards, Takeover: o.takeover, WakeTime: time.Duration(o.wakeTime * ms)}
}

// Each excuse is tested just inside and just outside of its bounds.
func TestExcusesEndAtTheirBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		o    overlap
		want history.Report // only its counts of overlaps
	}{
		{"no fault", overlap{oldRun: [2]int64{0, 4000}, nextRun: [2]int64{3000, 3100}}, history.Report{}},
		{"ends when the next run begins", overlap{oldRun: [2]int64{0, 3000}, nextRun: [2]int64{3000, 3100}, takeover: "none"}, history.Report{Handovers: 1}},

		{"pause", overlap{oldRun: [2]int64{0, 4249}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}}, history.Report{PauseOverlaps: 1}},
		{"pause, and the run continues for too long", overlap{oldRun: [2]int64{0, 4250}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}}, history.Report{}},
		{"pause, and the run continues without a processor", overlap{oldRun: [2]int64{0, 4349}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}, cpuWaits: [][2]int64{{3900, 4050}, {4200, 4250}}}, history.Report{PauseOverlaps: 1}},
		{"pause, and the run continues longer than without a processor", overlap{oldRun: [2]int64{0, 4350}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}, cpuWaits: [][2]int64{{3900, 4050}, {4200, 4250}}}, history.Report{}},
		{"pause, and the run continues while two threads wait at the same time", overlap{oldRun: [2]int64{0, 4350}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}, cpuWaits: [][2]int64{{4000, 4090}, {4010, 4050}, {4020, 4100}}}, history.Report{}},
		{"pause, and the run continues while other nodes wait for processors", overlap{oldRun: [2]int64{0, 4250}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}, cpuWaits: [][2]int64{{0, 3900}}}, history.Report{}},
		{"pause, and no processor until the limit", overlap{oldRun: [2]int64{0, 4000 + 3*notice - 1}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}, cpuWaits: [][2]int64{{4000, 9000}}}, history.Report{PauseOverlaps: 1}},
		{"pause, and no processor for longer than the limit", overlap{oldRun: [2]int64{0, 4000 + 3*notice}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}, cpuWaits: [][2]int64{{4000, 9000}}}, history.Report{}},
		{"pause, and no processor for longer than the limit, with a wake time", overlap{oldRun: [2]int64{0, 4000 + 3*notice}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}, cpuWaits: [][2]int64{{4000, 9000}}, wakeTime: 100}, history.Report{}},
		{"no pause, and no processor", overlap{oldRun: [2]int64{0, 4000}, nextRun: [2]int64{3000, 3100}, cpuWaits: [][2]int64{{0, 9000}}}, history.Report{}},
		{"pause that does not end", overlap{oldRun: [2]int64{0, open}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, open}}, history.Report{PauseOverlaps: 1}},
		{"pause that ended, and a run that does not end", overlap{oldRun: [2]int64{0, open}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}}, history.Report{}},
		{"pause when the next run begins", overlap{oldRun: [2]int64{0, 3200}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{3000, 3100}}, history.Report{PauseOverlaps: 1}},
		{"pause after the next run began", overlap{oldRun: [2]int64{0, 3200}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{3001, 3100}}, history.Report{}},
		{"started during the pause", overlap{oldRun: [2]int64{999, 3200}, nextRun: [2]int64{1100, 1200}, pause: [2]int64{500, 1000}}, history.Report{}},
		{"started during the pause, ended in time", overlap{oldRun: [2]int64{999, 1200}, nextRun: [2]int64{1100, 1150}, pause: [2]int64{500, 1000}}, history.Report{PauseOverlaps: 1}},
		{"started as the pause ended", overlap{oldRun: [2]int64{1000, 1200}, nextRun: [2]int64{1100, 1150}, pause: [2]int64{500, 1000}}, history.Report{}},
		{"both begin at the same time during the pause", overlap{oldRun: [2]int64{600, 700}, nextRun: [2]int64{600, 650}, pause: [2]int64{500, 1000}}, history.Report{PauseOverlaps: 1}},
		{"started after a short pause", overlap{oldRun: [2]int64{520, 700}, nextRun: [2]int64{600, 650}, pause: [2]int64{500, 510}, takeover: "lease"}, history.Report{}},
		{"started after a death, takeover immediate", overlap{oldRun: [2]int64{520, 700}, nextRun: [2]int64{600, 650}, kill: [2]int64{500, 510}, takeover: "immediate"}, history.Report{LateAbortOverlaps: 1}},
		{"death", overlap{oldRun: [2]int64{0, 3100 + notice - 1}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2900, 9500}, deadBy: 3100}, history.Report{PauseOverlaps: 1}},
		{"death, and the run continues for too long", overlap{oldRun: [2]int64{0, 3100 + notice}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2900, 9500}, deadBy: 3100}, history.Report{}},
		{"slow death", overlap{oldRun: [2]int64{0, 2700 + 2*notice - 1}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, deadBy: 8950}, history.Report{PauseOverlaps: 1}},
		{"too slow death", overlap{oldRun: [2]int64{0, 2700 + 2*notice}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, deadBy: 8950}, history.Report{}},
		{"very slow death", overlap{oldRun: [2]int64{0, 8900}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, deadBy: 8950}, history.Report{}},
		{"slow death without a processor", overlap{oldRun: [2]int64{0, 2700 + 2*notice + 99}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, deadBy: 8950, cpuWaits: [][2]int64{{2600, 2800}}}, history.Report{PauseOverlaps: 1}},
		{"slower death than without a processor", overlap{oldRun: [2]int64{0, 2700 + 2*notice + 100}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, deadBy: 8950, cpuWaits: [][2]int64{{2600, 2800}}}, history.Report{}},
		{"death without a processor until the limit", overlap{oldRun: [2]int64{0, 2700 + 4*notice - 1}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, deadBy: 8950, cpuWaits: [][2]int64{{0, 9000}}}, history.Report{PauseOverlaps: 1}},
		{"death without a processor for longer than the limit", overlap{oldRun: [2]int64{0, 2700 + 4*notice}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, deadBy: 8950, cpuWaits: [][2]int64{{0, 9000}}}, history.Report{}},
		{"announced exit, dead when the next run begins", overlap{oldRun: [2]int64{0, 3000 + notice - 1}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, deadBy: 3000, holdsShards: true}, history.Report{PauseOverlaps: 1}},
		{"announced exit, dead after the next run began", overlap{oldRun: [2]int64{0, 3001}, nextRun: [2]int64{3000, 3100}, kill: [2]int64{2700, 9500}, deadBy: 3001, holdsShards: true}, history.Report{}},
		{"aborted by a node that announced its exit", overlap{oldRun: [2]int64{0, 3249}, nextRun: [2]int64{3000, 3100}, aborted: true, kill: [2]int64{2700, 9500}, deadBy: 3251, holdsShards: true}, history.Report{}},
		{"pause that ended long before", overlap{oldRun: [2]int64{0, 9000}, nextRun: [2]int64{8000, 8100}, pause: [2]int64{500, 4000}}, history.Report{}},
		{"pause of the next owner", overlap{oldRun: [2]int64{0, 4000}, nextRun: [2]int64{3000, 3100}, pause: [2]int64{500, 4000}, otherNode: true}, history.Report{}},

		{"aborted by the drain", overlap{oldRun: [2]int64{0, 5249}, nextRun: [2]int64{5000, 5100}, aborted: true}, history.Report{LateAbortOverlaps: 1}},
		{"aborted by the drain, and the run continues for too long", overlap{oldRun: [2]int64{0, 5250}, nextRun: [2]int64{5000, 5100}, aborted: true}, history.Report{}},
		{"aborted before the drain timeout", overlap{oldRun: [2]int64{1, 5249}, nextRun: [2]int64{5000, 5100}, aborted: true, takeover: "lease"}, history.Report{}},
		{"stream aborted after its grace period", overlap{oldRun: [2]int64{0, 499}, nextRun: [2]int64{250, 600}, aborted: true, stream: true}, history.Report{LateAbortOverlaps: 1}},
		{"stream aborted after its grace period, and the run continues for too long", overlap{oldRun: [2]int64{0, 500}, nextRun: [2]int64{250, 600}, aborted: true, stream: true}, history.Report{}},
		{"stream aborted within its grace period", overlap{oldRun: [2]int64{1, 499}, nextRun: [2]int64{250, 600}, aborted: true, stream: true, takeover: "lease"}, history.Report{}},
		{"stream that was not aborted", overlap{oldRun: [2]int64{0, 499}, nextRun: [2]int64{250, 600}, stream: true}, history.Report{}},
		{"no stream, aborted after the grace period of streams", overlap{oldRun: [2]int64{0, 499}, nextRun: [2]int64{250, 600}, aborted: true}, history.Report{}},
		{"aborted after a reset", overlap{oldRun: [2]int64{0, 3249}, nextRun: [2]int64{3000, 3100}, aborted: true, reset: [2]int64{2000, 2500}}, history.Report{LateAbortOverlaps: 1}},
		{"aborted after a reset, and the run continues for too long", overlap{oldRun: [2]int64{0, 3250}, nextRun: [2]int64{3000, 3100}, aborted: true, reset: [2]int64{2000, 2500}}, history.Report{}},
		{"aborted long after a reset", overlap{oldRun: [2]int64{0, 3249}, nextRun: [2]int64{3000, 3100}, aborted: true, reset: [2]int64{100, 499}}, history.Report{}},

		{"reset", overlap{oldRun: [2]int64{0, 5499}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset, takeover immediate", overlap{oldRun: [2]int64{0, 5499}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, takeover: "immediate"}, history.Report{ResetOverlaps: 1}},
		{"reset, takeover timeout", overlap{oldRun: [2]int64{0, 5499}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, takeover: "timeout"}, history.Report{}},
		{"reset, default takeover", overlap{oldRun: [2]int64{0, 5499}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}}, history.Report{}},
		{"reset, and the run continues for too long", overlap{oldRun: [2]int64{0, 3000 + deadAfter}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, takeover: "lease"}, history.Report{}},
		{"reset that does not end", overlap{oldRun: [2]int64{0, 5499}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, open}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset, and a pause before the abort", overlap{oldRun: [2]int64{0, 8249}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, pause: [2]int64{5499, 8000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset, a pause before the abort, and the run continues for too long", overlap{oldRun: [2]int64{0, 8250}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, pause: [2]int64{5499, 8000}, takeover: "lease"}, history.Report{}},
		{"reset, and a pause after the abort was due", overlap{oldRun: [2]int64{0, 8249}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, pause: [2]int64{5500, 8000}, takeover: "lease"}, history.Report{}},
		{"reset, and a pause before the abort, takeover timeout", overlap{oldRun: [2]int64{0, 8249}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, pause: [2]int64{5499, 8000}, takeover: "timeout"}, history.Report{}},
		{"reset and run that do not end", overlap{oldRun: [2]int64{0, open}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, open}, takeover: "lease"}, history.Report{}},
		{"reset when the next run begins", overlap{oldRun: [2]int64{0, 3200}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{3000, 4000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset after the next run began", overlap{oldRun: [2]int64{0, 3200}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{3001, 4000}, takeover: "lease"}, history.Report{}},
		{"started during the reset", overlap{oldRun: [2]int64{999, 2000}, nextRun: [2]int64{1800, 1900}, reset: [2]int64{500, 1000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"started as the reset ended", overlap{oldRun: [2]int64{1000, 2000}, nextRun: [2]int64{1800, 1900}, reset: [2]int64{500, 1000}, takeover: "lease"}, history.Report{}},
		{"started after the reset, takeover immediate", overlap{oldRun: [2]int64{1000 + notice + lease + notice - 1, 3000}, nextRun: [2]int64{2500, 2600}, reset: [2]int64{500, 1000}, takeover: "immediate"}, history.Report{ResetOverlaps: 1}},
		{"started after the reset and a lease, takeover immediate", overlap{oldRun: [2]int64{1000 + notice + lease + notice, 3000}, nextRun: [2]int64{2500, 2600}, reset: [2]int64{500, 1000}, takeover: "immediate"}, history.Report{}},
		{"the next run begins long after the reset", overlap{oldRun: [2]int64{0, 3749}, nextRun: [2]int64{3700, 3710}, reset: [2]int64{500, 1000}, takeover: "lease"}, history.Report{ResetOverlaps: 1}},
		{"reset that ended long before", overlap{oldRun: [2]int64{0, 1000 + notice + deadAfter}, nextRun: [2]int64{3700, 3710}, reset: [2]int64{500, 1000}, takeover: "lease"}, history.Report{}},
		{"reset between other nodes", overlap{oldRun: [2]int64{0, 4000}, nextRun: [2]int64{3000, 3100}, reset: [2]int64{2000, 4000}, otherNode: true, takeover: "lease"}, history.Report{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			observed, rules := c.o.history()
			report := history.Check(observed, rules)
			if report.PauseOverlaps != c.want.PauseOverlaps || report.ResetOverlaps != c.want.ResetOverlaps || report.LateAbortOverlaps != c.want.LateAbortOverlaps {
				t.Errorf("report = %v\n%v", report, report.Violations)
			}
			bad := 1
			if c.want.PauseOverlaps+c.want.ResetOverlaps+c.want.LateAbortOverlaps+c.want.Handovers > 0 {
				bad = 0
			}
			if report.Count(history.TwoOwners) != bad || len(report.Violations) != bad {
				t.Errorf("violations = %v, want %d", report.Violations, bad)
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
		{"pause", overlap{oldRun: [2]int64{1001, 1050}, pause: [2]int64{500, 4000}, takeover: "lease"}, history.Report{}},
		{"reset", overlap{oldRun: [2]int64{1001, 1050}, reset: [2]int64{500, 4000}, takeover: "lease"}, history.Report{}},
		{"reset, takeover timeout", overlap{oldRun: [2]int64{1001, 1050}, reset: [2]int64{500, 4000}, takeover: "timeout"}, history.Report{}},
		{"aborted", overlap{oldRun: [2]int64{1001, 1050}, aborted: true, takeover: "immediate"}, history.Report{}},
		{"no fault, takeover immediate", overlap{oldRun: [2]int64{1001, 1050}, takeover: "immediate"}, history.Report{}},
		{"reset, takeover immediate", overlap{oldRun: [2]int64{1001, 1050}, reset: [2]int64{500, 4000}, takeover: "immediate"}, history.Report{ResetOverlaps: 2}},
		{"reset, takeover immediate, until the lease ends", overlap{oldRun: [2]int64{1000 + lease + notice - 1, 3499}, reset: [2]int64{500, 4000}, takeover: "immediate"}, history.Report{ResetOverlaps: 1}},
		{"reset, takeover immediate, after the lease", overlap{oldRun: [2]int64{1000 + lease + notice, 3499}, reset: [2]int64{500, 4000}, takeover: "immediate"}, history.Report{}},
		{"reset, takeover immediate, the run continues for too long", overlap{oldRun: [2]int64{1200, 1000 + deadAfter}, reset: [2]int64{500, 4000}, takeover: "immediate"}, history.Report{}},
		{"reset between other nodes, takeover immediate", overlap{oldRun: [2]int64{1001, 1050}, reset: [2]int64{500, 4000}, otherNode: true, takeover: "immediate"}, history.Report{}},
		{"reset after the takeover, takeover immediate", overlap{oldRun: [2]int64{1002, 1050}, reset: [2]int64{1001, 4000}, takeover: "immediate"}, history.Report{}},
		{"kill, takeover immediate", overlap{oldRun: [2]int64{1001, 1050}, kill: [2]int64{990, open}, takeover: "immediate"}, history.Report{LateAbortOverlaps: 2}},
		{"kill, takeover immediate, the request was on its way", overlap{oldRun: [2]int64{990 + notice - 1, 990 + 2*notice - 1}, kill: [2]int64{990, open}, takeover: "immediate"}, history.Report{LateAbortOverlaps: 1}},
		{"kill, takeover immediate, started too late", overlap{oldRun: [2]int64{990 + notice, 990 + 2*notice - 1}, kill: [2]int64{990, open}, takeover: "immediate"}, history.Report{}},
		{"kill, takeover immediate, the run continues for too long", overlap{oldRun: [2]int64{1150, 990 + 2*notice}, kill: [2]int64{990, open}, takeover: "immediate"}, history.Report{}},
		{"announced exit, dead after the takeover, takeover immediate", overlap{oldRun: [2]int64{1001, 1050}, kill: [2]int64{990, open}, deadBy: 1060, holdsShards: true, takeover: "immediate"}, history.Report{}},
		{"kill when the run began, takeover immediate", overlap{oldRun: [2]int64{1001, 1050}, kill: [2]int64{1000, open}, takeover: "immediate"}, history.Report{LateAbortOverlaps: 2}},
		{"kill after the takeover, takeover immediate", overlap{oldRun: [2]int64{1002, 1050}, kill: [2]int64{1001, open}, takeover: "immediate"}, history.Report{}},
		{"kill of the next owner, takeover immediate", overlap{oldRun: [2]int64{1001, 1050}, kill: [2]int64{990, open}, otherNode: true, takeover: "immediate"}, history.Report{}},
		{"kill", overlap{oldRun: [2]int64{1001, 1050}, kill: [2]int64{990, open}, takeover: "lease"}, history.Report{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.nextRun = next
			observed, rules := c.o.history()
			report := history.Check(observed, rules)
			if report.PauseOverlaps != c.want.PauseOverlaps || report.ResetOverlaps != c.want.ResetOverlaps || report.LateAbortOverlaps != c.want.LateAbortOverlaps {
				t.Errorf("report = %v\n%v", report, report.Violations)
			}
			stale, two := 1, 1
			if c.want.ResetOverlaps+c.want.LateAbortOverlaps > 0 {
				stale, two = 0, 0
			} else if c.o.oldRun[0] >= next[1] {
				two = 0 // it began after the other had ended
			}
			if report.Count(history.StaleEpoch) != stale || report.Count(history.TwoOwners) != two || len(report.Violations) != stale+two {
				t.Errorf("violations = %v, want %d and %d", report.Violations, stale, two)
			}
		})
	}
}

// A node returns to an older epoch of its own, with all faults at once.
func TestOwnEpochMustNotDecrease(t *testing.T) {
	for _, takeover := range []string{"", "lease", "immediate"} {
		observed, rules := overlap{oldRun: [2]int64{1000, 1100}, nextRun: [2]int64{900, 950}, pause: [2]int64{500, 4000}, reset: [2]int64{500, 4000}, aborted: true, takeover: takeover}.history()
		for i := range observed.Runs {
			if observed.Runs[i].ID == "next" {
				observed.Runs[i].App, observed.Runs[i].Node, observed.Responses[i].App = "a", "a", "a"
			}
		}
		report := history.Check(observed, rules)
		if report.Count(history.StaleEpoch) != 1 || len(report.Violations) != 1 {
			t.Errorf("takeover %q: %v\n%v", takeover, report, report.Violations)
		}
	}
}

// Two runs of the old owner overlap one run of the next. One of them overlaps a pause,
// the other one began after the pause and ends earlier.
func TestEveryOverlapIsChecked(t *testing.T) {
	observed, rules := overlap{oldRun: [2]int64{0, 4200}, nextRun: [2]int64{4100, 4150}, pause: [2]int64{500, 4000}}.history()
	builder := &historyBuilder{History: observed, now: 3000 + 4050}
	builder.addRequest("hidden", "GET", key(1), "a", 10, 140)
	report := history.Check(builder.History, rules)
	if report.PauseOverlaps != 1 || report.Count(history.TwoOwners) != 1 || len(report.Violations) != 1 {
		t.Errorf("report = %v\n%v", report, report.Violations)
	}
}

// Two nodes run one epoch, with all faults at once.
func TestSharedEpochIsNeverExcused(t *testing.T) {
	for _, takeover := range []string{"", "lease", "immediate"} {
		observed, rules := overlap{oldRun: [2]int64{0, 3100}, nextRun: [2]int64{3000, 3200}, aborted: true, pause: [2]int64{500, 4000}, reset: [2]int64{500, 4000}, takeover: takeover}.history()
		for i := range observed.Runs {
			observed.Runs[i].Epoch = min(observed.Runs[i].Epoch, 10)
		}
		report := history.Check(observed, rules)
		if report.Count(history.SharedEpoch) != 1 || report.Count(history.TwoOwners) != 1 || len(report.Violations) != 2 {
			t.Errorf("takeover %q: %v", takeover, report.Violations)
		}
	}
}

// A Reset without nodes affects all nodes.
func TestResetWithoutNodesAffectsAll(t *testing.T) {
	for _, names := range [][2]string{{}, {"c", ""}, {"", "c"}, {"b", "a"}} {
		observed, rules := overlap{oldRun: [2]int64{0, 3100}, nextRun: [2]int64{3000, 3200}, reset: [2]int64{500, 4000}, takeover: "lease"}.history()
		observed.Faults[0].Node, observed.Faults[0].Peer = names[0], names[1]
		if report := history.Check(observed, rules); report.ResetOverlaps != 1 || report.Err() != nil {
			t.Errorf("reset between %q: %v", names, report)
		}
	}
}

// An app rejects a request because the store rejected its epoch. This is correct in an
// excused overlap, and otherwise a failure.
func TestFencedResponseNeedsAnOverlap(t *testing.T) {
	fenced := func(observed history.History) *history.Response {
		for i := range observed.Responses {
			if resp := &observed.Responses[i]; resp.ID == "old" {
				resp.Status = 409
				return resp
			}
		}
		return nil
	}
	in := overlap{oldRun: [2]int64{0, 3100}, nextRun: [2]int64{3000, 3200}, pause: [2]int64{500, 4000}}
	observed, rules := in.history()
	fenced(observed)
	if report := history.Check(observed, rules); report.FencedRequests != 1 || report.PauseOverlaps != 1 || report.Err() != nil {
		t.Errorf("in an overlap: %v", report)
	}
	observed, rules = overlap{oldRun: [2]int64{0, 2900}, nextRun: [2]int64{3000, 3200}, pause: [2]int64{500, 4000}}.history()
	fenced(observed)
	if report := history.Check(observed, rules); report.FencedRequests != 0 || report.Count(history.Failed) != 1 || len(report.Violations) != 1 {
		t.Errorf("without an overlap: %v", report.Violations)
	}
	// The next owner opens the state before its first run. A map shows that it is the owner, and a fault that it may be.
	taken := func(owner string, epoch uint64, at int64, in overlap) *history.Report {
		takeover, takeoverRules := in.history()
		resp := fenced(takeover)
		owners := make([]string, 64)
		for i := range owners {
			owners[i] = owner
		}
		takeover.Maps = append(takeover.Maps, history.Map{Epoch: epoch, At: resp.DoneAt() + at*ms, Owners: owners})
		return history.Check(takeover, takeoverRules)
	}
	reset := overlap{oldRun: [2]int64{0, 100}, nextRun: [2]int64{3000, 3200}, reset: [2]int64{-400, 4000}, takeover: "immediate"}
	if report := taken("b", 11, 100, reset); report.FencedRequests != 1 || report.Count(history.Failed) != 0 {
		t.Errorf("when the next owner had opened the state: %v", report)
	}
	for name, report := range map[string]*history.Report{
		"without a fault":        taken("b", 11, 100, overlap{oldRun: reset.oldRun, nextRun: reset.nextRun, takeover: "immediate"}),
		"with takeover timeout":  taken("b", 11, 100, overlap{oldRun: reset.oldRun, nextRun: reset.nextRun, reset: reset.reset, takeover: "timeout"}),
		"by an earlier map":      taken("b", 10, 100, reset),
		"by a map of the owner":  taken("a", 11, 100, reset),
		"without another owner":  taken("", 11, 100, reset),
		"by a map a minute late": taken("b", 11, 60_000, reset),
	} {
		if report.FencedRequests != 0 || report.Count(history.Failed) != 1 {
			t.Errorf("%s: %v", name, report)
		}
	}
	observed, rules = in.history()
	fenced(observed).Error = "shard-moved" // it is a response of the node
	if report := history.Check(observed, rules); report.FencedRequests != 0 || report.Count(history.Failed) != 1 || len(report.Violations) != 1 {
		t.Errorf("of a node: %v", report.Violations)
	}
	observed, rules = in.history()
	fenced(observed).ID, fenced(observed).EchoID = "nobody", "nobody"
	if report := history.Check(observed, rules); report.Count(history.NoRun) != 1 {
		t.Errorf("without a run: %v", report.Violations)
	}
}
