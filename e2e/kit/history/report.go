package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxPrinted is the maximum number of violations in an error text.
const maxPrinted = 20

// Report is the result of Check.
type Report struct {
	// Requests is the number of requests. Answered is the number of complete responses of
	// the app with status 200.
	Requests, Answered int
	// RetriedRequests is the number of requests with more than one attempt. RefusedAttempts found
	// no listener. BrokenAttempts lost an idle connection because a process died.
	RetriedRequests, RefusedAttempts, BrokenAttempts int
	// Runs is the number of runs in the apps. Shards is the number of distinct shards.
	Runs, Shards int
	// Events is the number of events that followers received.
	Events int
	// JudgedMapChanges is the number of changes of the map that were checked for needless moves. It is
	// zero without Rules.SeveralInstances.
	JudgedMapChanges int
	// Handovers is the number of owner changes along the runs of all shards.
	Handovers int
	// ExcusedFailures is the number of failed requests by excuse.
	ExcusedFailures map[string]int
	// PauseOverlaps is the number of runs that overlapped the next owner because of a pause or a
	// death of their node. ResetOverlaps is the number of such runs because of a Reset. With
	// --takeover immediate, both include runs that began after the next owner.
	PauseOverlaps, ResetOverlaps int
	// LateAbortOverlaps is the number of other excused overlaps: an app noticed late that its
	// request was aborted, or that its node was dead.
	LateAbortOverlaps int
	// FencedRequests is the number of requests that an app rejected because the store had
	// rejected its epoch, during one of the overlaps.
	FencedRequests int
	// OverlapsByShard is the number of all excused overlaps by shard. In a shard without an entry,
	// an app that ignores epochs is as safe as an app that checks them.
	OverlapsByShard map[uint32]int
	// StalledTime is the total time in which the machine was so busy that no failure can be
	// attributed to a node.
	StalledTime time.Duration
	// Violations are the broken guarantees.
	Violations []Violation
}

// addViolation adds a violation to the report.
func (r *Report) addViolation(kind Kind, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{kind, fmt.Sprintf(format, args...)})
}

// Count returns the number of violations of a kind.
func (r *Report) Count(kind Kind) int {
	count := 0
	for _, violation := range r.Violations {
		if violation.Kind == kind {
			count++
		}
	}
	return count
}

// Err returns nil if there is no violation. Otherwise it lists the first violations.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "history: %d violations (%s)", len(r.Violations), r)
	if slices.ContainsFunc(r.Violations, func(violation Violation) bool { return violation.Kind.IsSafety() }) {
		text.WriteString(": " + SafetyViolated)
	}
	for i, violation := range r.Violations {
		if i == maxPrinted {
			text.WriteString("\n\t…")
			break
		}
		text.WriteString("\n\t" + violation.String())
	}
	return errors.New(text.String())
}

// String returns the report in one line.
func (r *Report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d requests, %d answered, %d re-attempted (%d attempts refused, %d broken), %d runs in %d shards, %d handovers",
		r.Requests, r.Answered, r.RetriedRequests, r.RefusedAttempts, r.BrokenAttempts, r.Runs, r.Shards, r.Handovers)
	if r.JudgedMapChanges > 0 {
		fmt.Fprintf(&text, ", %d map changes judged", r.JudgedMapChanges)
	}
	if r.Events > 0 {
		fmt.Fprintf(&text, ", %d events", r.Events)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.ExcusedFailures)) {
		fmt.Fprintf(&text, ", %d excused: %s", r.ExcusedFailures[reason], reason)
	}
	for _, counter := range []struct {
		count int
		name  string
	}{
		{r.PauseOverlaps, "overlaps at a pause or death"},
		{r.ResetOverlaps, "overlaps at a forged reset"},
		{r.LateAbortOverlaps, "overlaps with an aborted run"},
		{r.FencedRequests, "fenced by the store"},
	} {
		if counter.count > 0 {
			fmt.Fprintf(&text, ", %d %s", counter.count, counter.name)
		}
	}
	if r.StalledTime > 0 {
		fmt.Fprintf(&text, ", machine stalled for %v", r.StalledTime.Round(time.Millisecond))
	}
	countByKind := make(map[Kind]int)
	for _, violation := range r.Violations {
		countByKind[violation.Kind]++
	}
	for _, kind := range slices.Sorted(maps.Keys(countByKind)) {
		fmt.Fprintf(&text, ", %d %s", countByKind[kind], kind)
	}
	return text.String()
}
