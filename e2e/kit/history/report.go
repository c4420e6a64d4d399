package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// shown bounds how many violations an error prints.
const shown = 20

// Report is what Check found.
type Report struct {
	// Requests were sent, Answered got the app's whole 200.
	Requests, Answered int
	// Reattempts counts requests that took more than one attempt. Of the attempts
	// Refused found nobody listening, and Broken met the death of a process on a
	// connection that had been kept.
	Reattempts, Refused, Broken int
	// Runs were seen in the apps, Shards distinct shards among them.
	Runs, Shards int
	// Events came to followers.
	Events int
	// Handovers counts changes of node along the runs of a shard.
	Handovers int
	// Excused counts failed answers by their reason.
	Excused map[string]int
	// Stopped counts overlaps that straddle a stop or a death, Forged those that
	// straddle a Reset; with --takeover immediate also what began there after the next
	// owner.
	Stopped, Forged int
	// Outside counts the other overlaps outside the guarantee: an app noticed late
	// that its request had been cut, or that its node was dead.
	Outside int
	// Fenced counts requests that an app refused because the store had refused its
	// epoch, while it ran in one of the overlaps above.
	Fenced int
	// Overlapped counts all these overlaps by shard: elsewhere an app that knows no
	// epochs is as safe as one that does.
	Overlapped map[uint32]int
	// Stalled is for how long the machine was too busy to blame a node for anything.
	Stalled time.Duration
	// Violations are the broken promises.
	Violations []Violation
}

func (r *Report) add(k Kind, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{k, fmt.Sprintf(format, args...)})
}

// Count is the number of violations of kind k.
func (r *Report) Count(k Kind) int {
	n := 0
	for _, v := range r.Violations {
		if v.Kind == k {
			n++
		}
	}
	return n
}

// Err is nil if nothing was violated; else it lists the first violations.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "history: %d violations (%s)", len(r.Violations), r)
	if slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Kind.Safety() }) {
		b.WriteString(": " + Unsafe)
	}
	for i, v := range r.Violations {
		if i == shown {
			b.WriteString("\n\t…")
			break
		}
		b.WriteString("\n\t" + v.String())
	}
	return errors.New(b.String())
}

// String is the report in one line.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests, %d answered, %d re-attempted (%d attempts refused, %d broken), %d runs in %d shards, %d handovers",
		r.Requests, r.Answered, r.Reattempts, r.Refused, r.Broken, r.Runs, r.Shards, r.Handovers)
	if r.Events > 0 {
		fmt.Fprintf(&b, ", %d events", r.Events)
	}
	for _, why := range slices.Sorted(maps.Keys(r.Excused)) {
		fmt.Fprintf(&b, ", %d excused: %s", r.Excused[why], why)
	}
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.Stopped, "overlaps at a stop"},
		{r.Forged, "overlaps at a forged reset"},
		{r.Outside, "overlaps with a run that was cut"},
		{r.Fenced, "fenced by the store"},
	} {
		if c.n > 0 {
			fmt.Fprintf(&b, ", %d %s", c.n, c.what)
		}
	}
	if r.Stalled > 0 {
		fmt.Fprintf(&b, ", a busy machine for %v", r.Stalled.Round(time.Millisecond))
	}
	by := make(map[Kind]int)
	for _, v := range r.Violations {
		by[v.Kind]++
	}
	for _, k := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, ", %d %s", by[k], k)
	}
	return b.String()
}
