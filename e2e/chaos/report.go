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

// Violation is one broken promise.
type Violation struct {
	// Round is its number, -1 for what was found at the end.
	Round  int
	Faults string
	// Kind is that of a history.Violation, "register" for what is not
	// linearizable, or "broke" for what ended the run: a cluster that did not
	// serve again, a panic, an epoch with two maps.
	Kind string
	Text string
}

// Round is what came of one round.
type Round struct {
	Number int
	Faults string
	// History is the judgement of its requests.
	History *history.Report
	// Held requests waited for their shard, as far as the nodes still know. Moved
	// counts shards that changed hands.
	Held, Moved int
	// Longest is the longest time to an answer, of requests that take none.
	Longest    time.Duration
	Violations []Violation
}

func (r *Round) violate(kind, text string) {
	r.Violations = append(r.Violations, Violation{Kind: kind, Text: text})
}

// Report is what came of a run.
type Report struct {
	Options Options
	Rounds  []*Round
	// Skipped says of faults that cannot be had what the machine lacks, or why they do not go
	// with the options.
	Skipped    map[string]string
	Violations []Violation
	// Resumed counts further legs of event streams.
	Resumed int
	// Trace is what happened, and when.
	Trace string
}

// Count is the number of violations of a kind.
func (r *Report) Count(kind string) int {
	n := 0
	for _, v := range r.Violations {
		if v.Kind == kind {
			n++
		}
	}
	return n
}

// Faults are the names of all faults that came, one for each time; two that came
// together are two.
func (r *Report) Faults() []string {
	var all []string
	for _, round := range r.Rounds {
		all = append(all, strings.Split(round.Faults, " + ")...)
	}
	return all
}

// Requests is the number of requests that were judged.
func (r *Report) Requests() int {
	n := 0
	for _, round := range r.Rounds {
		n += round.History.Requests
	}
	return n
}

// Events is the number of events that were judged.
func (r *Report) Events() int {
	n := 0
	for _, round := range r.Rounds {
		n += round.History.Events
	}
	return n
}

func (r *Report) add(round *Round) {
	for i := range round.Violations {
		v := &round.Violations[i]
		v.Round, v.Faults = round.Number, round.Faults
		r.Violations = append(r.Violations, *v)
	}
}

// shown bounds how many violations an error prints.
const shown = 20

// Err is nil if nothing was violated; else it has all that it takes to find out
// why: seed, violations, schedule and events.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "chaos: %d violations with seed %d on %d nodes", len(r.Violations), r.Options.Seed, r.Options.Nodes)
	if slices.ContainsFunc(r.Violations, func(v Violation) bool { return history.Safety(v.Kind) }) {
		b.WriteString(": " + history.SafetyViolated)
	}
	// What there is little of comes first: the rest often follows from it.
	rarest := slices.SortedStableFunc(slices.Values(r.Violations), func(a, b Violation) int { return cmp.Compare(r.Count(a.Kind), r.Count(b.Kind)) })
	for i, v := range rarest {
		if i == shown {
			fmt.Fprintf(&b, "\n… %d more", len(r.Violations)-shown)
			break
		}
		fmt.Fprintf(&b, "\nround %d (%s): %s: %s", v.Round, v.Faults, v.Kind, v.Text)
	}
	b.WriteString("\nschedule:")
	for _, round := range r.Rounds {
		fmt.Fprintf(&b, "\n%4d  %s", round.Number, round.Faults)
	}
	fmt.Fprintf(&b, "\nevents:\n%s", r.Trace)
	return errors.New(b.String())
}

// row sums up the rounds of one fault.
type row struct {
	rounds, requests, again, held, moved     int
	failed                                   map[string]int
	longest                                  time.Duration
	stopped, forged, fenced, outside, broken int
}

func (s *row) add(r *Round) {
	s.rounds++
	s.requests += r.History.Requests
	s.again += r.History.Reattempts
	s.held += r.Held
	s.moved += r.Moved
	s.longest = max(s.longest, r.Longest)
	s.stopped += r.History.Paused
	s.forged += r.History.Forged
	s.fenced += r.History.Fenced
	s.outside += r.History.NoticedLate
	s.broken += len(r.Violations)
	for why, n := range r.History.Excused {
		s.failed[why] += n
	}
}

// String is the table: what each fault cost. Again counts requests that were sent more
// than once. Stopped, forged and late are overlaps
// outside of the guarantee: beside a stopped process, a forged reset, and a cut that
// the app noticed late; fenced requests were refused by the store meanwhile.
func (r *Report) String() string {
	rows := make(map[string]*row)
	for _, round := range r.Rounds {
		s, ok := rows[round.Faults]
		if !ok {
			s = &row{failed: make(map[string]int)}
			rows[round.Faults] = s
		}
		s.add(round)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, takeover %s, secret %v, seed %d: %d rounds, %d violations\n",
		r.Options.Nodes, r.Options.Takeover, r.Options.Secret, r.Options.Seed, len(r.Rounds), len(r.Violations))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "fault\trounds\trequests\tagain\theld\tmoved\tlongest\tstopped\tforged\tlate\tfenced\tviolations\tfailed")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		s := rows[name]
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d ms\t%d\t%d\t%d\t%d\t%d\t%s\n", name, s.rounds, s.requests, s.again, s.held, s.moved,
			s.longest.Milliseconds(), s.stopped, s.forged, s.outside, s.fenced, s.broken, reasons(s.failed))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		_, _ = fmt.Fprintf(t, "%s\tskipped: %s\n", name, r.Skipped[name])
	}
	_ = t.Flush()
	return b.String()
}

func reasons(failed map[string]int) string {
	var all []string
	for _, why := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, fmt.Sprintf("%d %s", failed[why], why))
	}
	return strings.Join(all, "; ")
}
