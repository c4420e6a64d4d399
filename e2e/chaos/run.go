//go:build linux

package chaos

import (
	"fmt"
	"os"
	"testing"
	"time"

	"shardway/e2e/kit/netns"
)

// Available returns why no run is possible on this machine, or nil.
func Available() error { return netns.Available() }

// Run starts a cluster, injects faults round by round, and reports. It ends early after
// the first round with violations. It does not fail tb: errors are part of the report.
// All started processes have ended when it returns.
func Run(tb testing.TB, o Options) *Report {
	tb.Helper()
	o = o.withDefaults()
	r := &Report{Options: o, Skipped: make(map[string]string)}
	names := o.selectFaults(r)
	if len(names) == 0 {
		return r
	}
	rec := &recordingTB{TB: tb, quiet: o.Quiet}
	sc := newScenario(rec, o)
	rec.run(func() {
		sc.launch()
		s := newSchedule(names, o.Seed, o.Reverse)
		for range o.Skip {
			s.next()
		}
		sc.runRounds(r, s)
	})
	for _, text := range rec.recorded() {
		r.Violations = append(r.Violations, Violation{Round: sc.number, Faults: sc.currentFaults, Kind: "run failed", Text: text})
	}
	r.Trace = sc.trace.String()
	return r
}

// selectFaults returns the names of the possible faults, and records in r why the others are
// skipped. If the options exclude every selected fault, the run has no rounds and succeeds.
// If no fault matches the filter, selectFaults records a violation.
func (o *Options) selectFaults(r *Report) (names []string) {
	excluded := false
	for _, f := range newFaults() {
		if !o.Faults.MatchString(f.name()) {
			continue
		}
		if why := o.conflict(f); why != "" {
			r.Skipped[f.name()], excluded = why, true
			continue
		}
		if n, ok := f.(conditionalFault); ok {
			if err := n.unavailable(); err != nil {
				r.Skipped[f.name()] = err.Error()
				continue
			}
		}
		names = append(names, f.name())
	}
	if len(names) == 0 && !excluded {
		r.Violations = append(r.Violations, Violation{Kind: "run failed", Text: fmt.Sprintf("no fault matches %q, or this machine supports none", o.Faults)})
	}
	return names
}

// conflict returns why the options exclude a fault, or an empty string.
func (o *Options) conflict(f fault) string {
	switch f.(type) {
	case *killApp, *restartApp:
		if o.Embedded {
			return "the app runs in the process of its node"
		}
	case *hold:
		if !o.Hold {
			return "no node restarts in place"
		}
	case *badHooks:
		if !o.Hooks {
			return "the apps have no hooks"
		}
	}
	return ""
}

// runRounds runs rounds until the time is over or a round has violations.
func (sc *scenario) runRounds(r *Report, d *schedule) {
	until := time.Now().Add(sc.o.For)
	for k := 0; time.Now().Before(until) && (sc.o.Rounds == 0 || k < sc.o.Rounds); k++ {
		fs := d.nextRound(sc.o.Pairs)
		sc.currentFaults = joinNames(fs)
		start := time.Now()
		round := sc.round(k, fs)
		r.Rounds = append(r.Rounds, round)
		r.add(round)
		sc.Logf("%d nodes, round %d: %s: %v in %.1f s", sc.o.Nodes, k, round.Faults, round.History, time.Since(start).Seconds())
		if len(round.Violations) > 0 {
			sc.violated = true
			return
		}
	}
	sc.currentFaults = "all rounds"
	last := sc.checkAll()
	last.Number = -1
	r.Resumed = sc.countResumed()
	sc.violated = len(last.Violations) > 0
	r.add(last)
}

// removeUnlessKept removes a directory unless SHARDWAY_E2E_KEEP is set.
func removeUnlessKept(dir string) error {
	if keepsData() {
		return nil
	}
	return os.RemoveAll(dir)
}

// keepsData reports whether data and logs must remain until the next test run.
func keepsData() bool { return os.Getenv("SHARDWAY_E2E_KEEP") != "" }
