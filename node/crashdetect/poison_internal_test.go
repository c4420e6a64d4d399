package crashdetect

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/proxy/poison"
)

// judged returns the suspects of a leader's detector after tell has reported crashes to it, and its log.
func judged(tell func(p *PoisonDetector)) (suspects []Suspect, log string) {
	var b bytes.Buffer
	p := NewPoisonDetector(PoisonOptions{Log: zerolog.New(&b)})
	tell(p)
	return p.Suspects(), b.String()
}

func under(node string, boot uint64, ago time.Duration, hashes ...uint64) CrashReport {
	i := CrashReport{Node: node, Boot: boot, AgoMS: ago.Milliseconds()}
	for _, h := range hashes {
		i.Keys = append(i.Keys, poison.Implicated{Shard: 7, Hash: h})
	}
	return i
}

func many(from uint64) []uint64 {
	var all []uint64
	for i := range uint64(poison.MaxImplicated) {
		all = append(all, from+i)
	}
	return all
}

// A key is suspected if it was in flight at two crashed nodes within a minute, each time as one of few keys, whichever nodes reported it.
func TestPoisonIsSuspected(t *testing.T) {
	for name, tc := range map[string]struct {
		tell func(p *PoisonDetector)
		want bool
	}{
		"two nodes, told by one": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 30*time.Second, 1, 2), under("b", 1, 0, 1)})
		}, true},
		"two nodes, told by two": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 30*time.Second, 1)})
			p.Record("y", []CrashReport{under("b", 1, 0, 1, 3)})
		}, true},
		"one node": {func(p *PoisonDetector) { p.Record("x", []CrashReport{under("a", 1, 0, 1)}) }, false},
		"one node, twice": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 9*time.Second, 1), under("a", 2, 0, 1)})
		}, false},
		"other keys": {func(p *PoisonDetector) { p.Record("x", []CrashReport{under("a", 1, 0, 2), under("b", 1, 0, 1)}) }, false},
		"a minute apart": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 0, 1)})
			time.Sleep(61 * time.Second)
			p.Record("x", []CrashReport{under("b", 1, 0, 1)})
		}, false},
		"within a minute": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 0, 1)})
			time.Sleep(59 * time.Second)
			p.Record("x", []CrashReport{under("b", 1, 0, 1)})
		}, true},
		"told of again": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 0, 1)})
			p.Record("x", []CrashReport{under("a", 1, 0, 1)})
		}, false},
		"as one of eight": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 0, many(1)...), under("b", 1, 0, 1)})
		}, true},
		"one of many at two": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 0, many(1)...)})
			p.Record("y", []CrashReport{under("a", 1, 0, 99)})
			p.Record("x", []CrashReport{under("b", 1, 0, 1)})
		}, false},
		"from the future": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 0, 1), under("b", 1, -30*time.Second, 1)})
		}, false},
		"of more than a minute ago": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 61*time.Second, 1), under("b", 1, 10*time.Second, 1)})
		}, false},
		"a minute apart, told of sooner": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 50*time.Second, 1)})
			time.Sleep(20 * time.Second)
			p.Record("x", []CrashReport{under("b", 1, 0, 1)})
		}, false},
		"of one end two tell": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 0, 1)})
			p.Record("y", []CrashReport{under("a", 1, 0, 2)})
			p.Record("x", []CrashReport{under("b", 1, 0, 1)})
		}, true},
		"a process that ended again without it": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 30*time.Second, 1), under("a", 2, 0, 2), under("b", 1, 0, 1)})
		}, true},
		"few at each of two processes": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 0, many(1)...), under("a", 2, 0, many(50)...), under("b", 1, 0, 1)})
		}, true},
		"one of twenty": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("a", 1, 0, append(many(1), many(50)...)...), under("b", 1, 0, 1)})
		}, false},
		"three nodes": {func(p *PoisonDetector) {
			p.Record("x", []CrashReport{under("0", 1, 10*time.Second, 1), under("b", 1, 20*time.Second, 1), under("a", 1, 30*time.Second, 1)})
		}, true},
		"suspected again": {func(p *PoisonDetector) {
			for range 2 {
				p.Record("x", []CrashReport{under("a", 1, 0, 1), under("b", 1, 0, 1)})
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, log := judged(tc.tell)
				if (len(got) == 1) != tc.want || strings.Count(log, "poison request suspected") != len(got) {
					t.Errorf("suspects %v, log %s", got, log)
				}
				for _, s := range got {
					if s.Key != (poison.Implicated{Shard: 7, Hash: 1}) || strings.Join(s.Nodes, " ") != "a b" { // in the order of the crashes
						t.Errorf("suspect %+v", s)
					}
				}
			})
		})
	}
}

// The reports of other nodes are bounded, and a lasting suspect is logged once.
func TestPoisonIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *PoisonDetector
		_, log := judged(func(q *PoisonDetector) {
			p = q
			for i := uint64(0); i < 3000; { // as much as a node may report at once, repeatedly
				var all []CrashReport
				for ; len(all) < maxReports; i++ {
					all = append(all, under("a", i, 0, i), under("b", i, 0, i))
				}
				p.Record("x", all)
			}
			for range 3 {
				p.Record("y", []CrashReport{under("c", 1, 0, 1)})
			}
		})
		if len(p.mu.reports) > maxStoredReports || len(p.mu.suspects) > maxSuspects {
			t.Errorf("%d ends, %d suspects", len(p.mu.reports), len(p.mu.suspects))
		}
		if n := strings.Count(log, `"key_hash":"0000000000000001"`); n > 1 {
			t.Errorf("told %d times of one suspect", n)
		}
		if p.Record("z", []CrashReport{under("d", 1, 0, 1)}); len(p.mu.reports) != maxStoredReports {
			t.Errorf("%d ends, want no more than before", len(p.mu.reports))
		}
		for i := range uint64(100) {
			p.addOwnReport(CrashReport{Boot: i, At: time.Now()})
		}
		if n := len(p.mu.ownReports); n != maxReports || p.mu.ownReports[n-1].Boot != 99 {
			t.Errorf("%d of its own, the last of boot %d, want %d up to 99", n, p.mu.ownReports[n-1].Boot, maxReports)
		}
		time.Sleep(2 * suspectedFor)
		if got := p.Suspects(); len(got) != 0 {
			t.Errorf("after two hours: %v", got)
		}
		if p.addOwnReport(CrashReport{At: time.Now()}); len(p.mu.ownReports) != 1 {
			t.Errorf("%d of its own after two hours, want the one", len(p.mu.ownReports))
		}
		p.Record("x", []CrashReport{under("a", 1, 0, 1), under("b", 1, 0, 1)})
		if got := p.Suspects(); len(got) != 1 || len(p.mu.reports) != 2 {
			t.Errorf("two hours later: %d suspects and %d ends, want one and two", len(got), len(p.mu.reports))
		}
	})
}

// The crash reports of one node are limited, in crashes and in keys.
func TestCrashReportsOfOneNodeAreLimited(t *testing.T) {
	p := NewPoisonDetector(PoisonOptions{Log: zerolog.Nop()})
	var all []CrashReport
	for boot := range uint64(2 * maxReports) {
		all = append(all, under("a", boot, 0, append(many(1), many(50)...)...))
	}
	p.Record("x", all)
	if len(p.mu.reports) != maxReports {
		t.Errorf("%d ends of one question, want %d", len(p.mu.reports), maxReports)
	}
	for _, i := range p.mu.reports {
		if len(i.Keys) != poison.MaxImplicated+1 {
			t.Errorf("%d keys of an end, want %d: that it was more than implicates", len(i.Keys), poison.MaxImplicated+1)
		}
	}
}

// A key stays suspected for an hour after the last two crashes, and lists their nodes.
func TestSuspectOfLateStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPoisonDetector(PoisonOptions{Log: zerolog.Nop()})
		p.Record("x", []CrashReport{under("a", 1, 0, 1), under("b", 1, 0, 1)})
		time.Sleep(50 * time.Minute)
		p.Record("x", []CrashReport{under("c", 1, 0, 1), under("d", 1, 0, 1)})
		time.Sleep(50 * time.Minute)
		if got := p.Suspects(); len(got) != 1 || strings.Join(got[0].Nodes, " ") != "c d" {
			t.Errorf("suspects %+v, want one of c and d", got)
		}
	})
}

// Suspects returns a copy: the caller changes it while it is sent, and the detector records more in the meantime.
func TestSuspectsReturnsACopy(t *testing.T) {
	p := NewPoisonDetector(PoisonOptions{Log: zerolog.Nop()})
	told := p.addOwnReport(CrashReport{Node: "a", At: time.Now()})
	told[0].Node = "z"
	p.Record("x", []CrashReport{under("a", 1, 0, 1), under("b", 1, 0, 1)})
	listed := p.Suspects()
	listed[0].suspectedAt = time.Time{}
	if p.mu.ownReports[0].Node != "a" || len(p.Suspects()) != 1 {
		t.Error("who is told can change what is known")
	}
}
