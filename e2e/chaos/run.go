//go:build linux

package chaos

import (
	"fmt"
	"os"
	"testing"
	"time"

	"shardway/e2e/kit/netns"
)

// Available returns nil if a run is possible on this machine. Otherwise the error is the reason.
func Available() error { return netns.Available() }

// Run starts a cluster, injects faults round by round, and returns a report. It ends after the first
// round with violations. It does not fail tb, because the report contains the errors. All started
// processes have ended when it returns.
func Run(tb testing.TB, opts Options) *Report {
	tb.Helper()
	opts = opts.withDefaults()
	report := &Report{Options: opts, Skipped: make(map[string]string)}
	names := opts.selectFaults(report)
	if len(names) == 0 {
		return report
	}
	recorder := &recordingTB{TB: tb, quiet: opts.Quiet}
	sc := newScenario(recorder, opts)
	recorder.runWithCleanups(func() {
		sc.launch()
		schedule := newSchedule(names, opts.Seed, opts.Reverse)
		for range opts.Skip {
			schedule.next()
		}
		sc.runRounds(report, schedule)
	})
	for _, text := range recorder.recordedFailures() {
		report.Violations = append(report.Violations, Violation{Round: sc.roundNumber, Faults: sc.currentFaults, Kind: "run failed", Text: text})
	}
	report.Trace = sc.trace.String()
	return report
}

// selectFaults returns the names of the faults that match the filter and are possible. It records in
// the report why matching faults are skipped. If the options exclude all of them, the run has no
// rounds and succeeds. If no fault matches the filter, selectFaults records a violation.
func (o *Options) selectFaults(report *Report) (names []string) {
	hasExcluded := false
	for _, candidate := range newFaults() {
		if !o.Faults.MatchString(candidate.name()) {
			continue
		}
		if reason := o.exclusionReason(candidate); reason != "" {
			report.Skipped[candidate.name()], hasExcluded = reason, true
			continue
		}
		if conditional, ok := candidate.(conditionalFault); ok {
			if err := conditional.unavailable(); err != nil {
				report.Skipped[candidate.name()] = err.Error()
				continue
			}
		}
		names = append(names, candidate.name())
	}
	if len(names) == 0 && !hasExcluded {
		report.Violations = append(report.Violations, Violation{Kind: "run failed", Text: fmt.Sprintf("no fault matches %q, or this machine supports none", o.Faults)})
	}
	return names
}

// exclusionReason returns why the options exclude a fault, or an empty string if they do not.
func (o *Options) exclusionReason(candidate fault) string {
	switch candidate.(type) {
	case *killApp, *restartApp:
		if o.Embedded {
			return "the app runs in the process of its node"
		}
	case *hold:
		if !o.HoldShards {
			return "no node restarts in place"
		}
	case *instanceFault:
		if o.Instances < 2 {
			return "each node has one app instance"
		}
	case *isolateFromFollowers:
		if o.Nodes < minNodesForReports {
			return "the followers are no majority of the nodes that may report one of them"
		}
	case *badHooks:
		if !o.Hooks {
			return "the apps have no hooks"
		}
	}
	return ""
}

// runRounds runs rounds until Options.Duration or Options.Rounds is reached, or a round has
// violations. If no round has violations, it then checks all rounds together.
func (sc *scenario) runRounds(report *Report, rounds *schedule) {
	deadline := time.Now().Add(sc.opts.Duration)
	for number := 0; time.Now().Before(deadline) && (sc.opts.Rounds == 0 || number < sc.opts.Rounds); number++ {
		faults := rounds.nextRound(sc.opts.AllowPairs)
		sc.currentFaults = joinNames(faults)
		start := time.Now()
		round := sc.runRound(number, faults)
		report.Rounds = append(report.Rounds, round)
		report.addViolations(round)
		sc.Logf("%d nodes, round %d: %s: %v in %.1f s", sc.opts.Nodes, number, round.Faults, round.History, time.Since(start).Seconds())
		if len(round.Violations) > 0 {
			sc.violated = true
			return
		}
	}
	sc.currentFaults = "all rounds"
	finalRound := sc.checkAll()
	finalRound.Number = -1
	report.Resumed = sc.countResumed()
	sc.violated = len(finalRound.Violations) > 0
	report.addViolations(finalRound)
}

// removeUnlessKept removes a directory unless SHARDWAY_E2E_KEEP is set.
func removeUnlessKept(dir string) error {
	if mustKeepData() {
		return nil
	}
	return os.RemoveAll(dir)
}

// mustKeepData reports whether data and logs must remain after the run, for a developer to read.
func mustKeepData() bool { return os.Getenv("SHARDWAY_E2E_KEEP") != "" }
