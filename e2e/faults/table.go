//go:build linux

package faults

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Trial is what one fault cost.
type Trial struct {
	// Moved is the longest time that a key of a shard whose owner changed went
	// unanswered, Stayed the same over all other keys.
	Moved, Stayed time.Duration
	// Slowest is the longest time that one request took, whether its key was served
	// to others meanwhile or not.
	Slowest time.Duration
	// Failed counts requests that got no good answer, Cut those among them that
	// had been running for a while elsewhere than on the node at fault; Held those
	// that had to wait at a node that was not.
	Failed, Cut, Held int
	// Shards is how many shards changed their owner.
	Shards int
}

// Row is one fault on one kind of cluster.
type Row struct {
	Fault    string
	Nodes    int
	Takeover string
	Target   string
	Trials   []Trial
	// Skipped says why there are none.
	Skipped string
}

// Table is for people to read: one line for each row, times in milliseconds.
func Table(rows []*Row) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "fault\tnodes\ttakeover\ttrials\tmoved keys\tother keys\tslowest request\tfailed\tcut\theld\tshards moved\ttarget")
	_, _ = fmt.Fprintln(w, "\t\t\t\tmedian p90 max ms\tmedian p90 max ms\tmedian p90 max ms\tall\tall\ta trial\ta trial\tms")
	for _, r := range rows {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%d\t", r.Fault, r.Nodes, r.Takeover, len(r.Trials))
		if r.Skipped != "" {
			_, _ = fmt.Fprintf(w, "skipped: %s\n", r.Skipped)
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\n", r.figures())
	}
	_ = w.Flush() // into memory
	return b.String()
}

// figures are the columns that the trials fill.
func (r *Row) figures() string {
	var moved, stayed, slowest Sample
	var sum Trial
	for _, t := range r.Trials {
		moved.Add(t.Moved)
		stayed.Add(t.Stayed)
		slowest.Add(t.Slowest)
		sum.Failed += t.Failed
		sum.Cut += t.Cut
		sum.Held += t.Held
		sum.Shards += t.Shards
	}
	n := float64(max(len(r.Trials), 1))
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%.1f\t%.1f\t%s",
		moved, stayed, slowest, sum.Failed, sum.Cut, float64(sum.Held)/n, float64(sum.Shards)/n, r.Target)
}
