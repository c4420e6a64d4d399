//go:build linux

package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"shardway/e2e/kit/history"
)

// Violation is one broken guarantee.
type Violation struct {
	// Round is the number of the round, or -1 for the check of all rounds.
	Round  int
	Faults string
	// Kind is the kind of a history.Violation, or one of "counter", "lost write", "not
	// linearizable" and "run failed". The last one means that the run ended early, because the
	// cluster did not serve again, a process panicked, or an epoch had two maps.
	Kind string
	Text string
}

// Round is the result of one round.
type Round struct {
	Number int
	Faults string
	// History is the result of the check of its requests.
	History *history.Report
	// Queued is the number of requests that waited for their shard, without those of processes
	// that were killed. Moved is the number of shards that changed their owner.
	Queued, Moved int
	// Longest is the longest time to a response, among the requests that the app processed without
	// delay.
	Longest    time.Duration
	Violations []Violation
}

func (r *Round) addViolation(kind, text string) {
	r.Violations = append(r.Violations, Violation{Kind: kind, Text: text})
}

// Report is the result of a run.
type Report struct {
	Options Options
	Rounds  []*Round
	// Skipped contains the reason for each skipped fault, by name: a missing feature of the
	// machine, or the option that excludes the fault.
	Skipped    map[string]string
	Violations []Violation
	// Resumed is the number of upstream connections that continued an event stream.
	Resumed int
	// Trace lists the events of the run with their times.
	Trace string
}

// Count returns the number of violations of a kind.
func (r *Report) Count(kind string) int {
	count := 0
	for _, violation := range r.Violations {
		if violation.Kind == kind {
			count++
		}
	}
	return count
}

// Faults returns the names of all injected faults, with one name for each injection. A round
// with two faults adds two names.
func (r *Report) Faults() []string {
	var all []string
	for _, round := range r.Rounds {
		all = append(all, strings.Split(round.Faults, " + ")...)
	}
	return all
}

// Requests returns the number of checked requests.
func (r *Report) Requests() int {
	count := 0
	for _, round := range r.Rounds {
		count += round.History.Requests
	}
	return count
}

// Events returns the number of checked events.
func (r *Report) Events() int {
	count := 0
	for _, round := range r.Rounds {
		count += round.History.Events
	}
	return count
}

// JudgedMapChanges returns the number of changes of the map that were checked for needless moves.
func (r *Report) JudgedMapChanges() int {
	count := 0
	for _, round := range r.Rounds {
		count += round.History.JudgedMapChanges
	}
	return count
}

// addViolations adds the violations of a round to the report.
func (r *Report) addViolations(round *Round) {
	for i := range round.Violations {
		violation := &round.Violations[i]
		violation.Round, violation.Faults = round.Number, round.Faults
		r.Violations = append(r.Violations, *violation)
	}
}

// maxPrinted is the maximum number of violations in an error text.
const maxPrinted = 20

// Err returns nil if there is no violation. Otherwise the error contains the seed, the violations,
// the schedule and the trace.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "chaos: %d violations with seed %d on %d nodes", len(r.Violations), r.Options.Seed, r.Options.Nodes)
	if slices.ContainsFunc(r.Violations, func(violation Violation) bool { return history.IsSafetyKind(violation.Kind) }) {
		text.WriteString(": " + history.SafetyViolated)
	}
	// Rare kinds come first, because frequent violations are often consequences of a rare one.
	rarestFirst := slices.SortedStableFunc(slices.Values(r.Violations), func(a, b Violation) int { return cmp.Compare(r.Count(a.Kind), r.Count(b.Kind)) })
	for i, violation := range rarestFirst {
		if i == maxPrinted {
			fmt.Fprintf(&text, "\n… %d more", len(r.Violations)-maxPrinted)
			break
		}
		fmt.Fprintf(&text, "\nround %d (%s): %s: %s", violation.Round, violation.Faults, violation.Kind, violation.Text)
	}
	text.WriteString("\nschedule:")
	for _, round := range r.Rounds {
		fmt.Fprintf(&text, "\n%4d  %s", round.Number, round.Faults)
	}
	fmt.Fprintf(&text, "\nevents:\n%s", r.Trace)
	return errors.New(text.String())
}

// faultTotals is the sum over the rounds of one fault.
type faultTotals struct {
	rounds, requests, retried, queued, moved int
	failed                                   map[string]int
	longest                                  time.Duration
	paused, forged, fenced, late, violations int
}

// add adds the results of one round.
func (t *faultTotals) add(round *Round) {
	t.rounds++
	t.requests += round.History.Requests
	t.retried += round.History.RetriedRequests
	t.queued += round.Queued
	t.moved += round.Moved
	t.longest = max(t.longest, round.Longest)
	t.paused += round.History.PauseOverlaps
	t.forged += round.History.ResetOverlaps
	t.fenced += round.History.FencedRequests
	t.late += round.History.LateAbortOverlaps
	t.violations += len(round.Violations)
	for reason, n := range round.History.ExcusedFailures {
		t.failed[reason] += n
	}
}

// String returns a table of the effects of each fault. Retried counts requests that were
// sent more than once. Paused, forged and late are overlaps outside the guarantee: during
// a pause or after a death, after a forged reset, and after an abort that the app noticed
// late. Fenced counts requests that the store rejected during such an overlap.
func (r *Report) String() string {
	rows := make(map[string]*faultTotals)
	for _, round := range r.Rounds {
		totals, ok := rows[round.Faults]
		if !ok {
			totals = &faultTotals{failed: make(map[string]int)}
			rows[round.Faults] = totals
		}
		totals.add(round)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d nodes, takeover %s, secret %v, seed %d: %d rounds, %d violations\n",
		r.Options.Nodes, r.Options.Takeover, r.Options.Secret, r.Options.Seed, len(r.Rounds), len(r.Violations))
	tabs := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tabs, "fault\trounds\trequests\tretried\tqueued\tmoved\tlongest\tpaused\tforged\tlate\tfenced\tviolations\tfailed")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		totals := rows[name]
		_, _ = fmt.Fprintf(tabs, "%s\t%d\t%d\t%d\t%d\t%d\t%d ms\t%d\t%d\t%d\t%d\t%d\t%s\n", name, totals.rounds, totals.requests, totals.retried, totals.queued, totals.moved,
			totals.longest.Milliseconds(), totals.paused, totals.forged, totals.late, totals.fenced, totals.violations, formatReasons(totals.failed))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		_, _ = fmt.Fprintf(tabs, "%s\tskipped: %s\n", name, r.Skipped[name])
	}
	_ = tabs.Flush()
	return text.String()
}

func formatReasons(failed map[string]int) string {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, fmt.Sprintf("%d %s", failed[reason], reason))
	}
	return strings.Join(all, "; ")
}
