//go:build linux

package faults

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Trial is the effect of one fault.
type Trial struct {
	// MovedKeys is the longest response gap of any key whose shard changed owner. OtherKeys is the longest
	// response gap of any other key. A response gap is a time in which no request for the key received a response.
	MovedKeys, OtherKeys time.Duration
	// Slowest is the longest request duration, including slow requests whose key was otherwise being
	// served.
	Slowest time.Duration
	// Failed is the number of failed requests. Aborted is the number of failed requests that had been
	// running on other nodes than the faulty one. Queued is the number of requests that were queued
	// at other nodes.
	Failed, Aborted, Queued int
	// Shards is the number of shards that changed their owner.
	Shards int
}

// Row is one line of the table: a fault, the cluster into which it was injected, and the trials.
type Row struct {
	Fault    string
	Nodes    int    // number of nodes of the cluster
	Takeover string // value of --takeover of the cluster
	Target   string // column target: the expected duration of the outage in milliseconds
	Trials   []Trial
	// Skipped is the reason why there are no trials.
	Skipped string
}

// Table returns a table with one line per row, in milliseconds.
func Table(rows []*Row) string {
	var text strings.Builder
	tabs := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tabs, "fault\tnodes\ttakeover\ttrials\tmoved keys\tother keys\tslowest request\tfailed\taborted\tqueued\tshards moved\ttarget")
	_, _ = fmt.Fprintln(tabs, "\t\t\t\tmedian p90 max ms\tmedian p90 max ms\tmedian p90 max ms\tall\tall\ta trial\ta trial\tms")
	for _, row := range rows {
		_, _ = fmt.Fprintf(tabs, "%s\t%d\t%s\t%d\t", row.Fault, row.Nodes, row.Takeover, len(row.Trials))
		if row.Skipped != "" {
			_, _ = fmt.Fprintf(tabs, "skipped: %s\n", row.Skipped)
			continue
		}
		_, _ = fmt.Fprintf(tabs, "%s\n", row.columns())
	}
	_ = tabs.Flush() // writes to memory
	return text.String()
}

// columns returns the columns of the row that summarize its trials.
func (r *Row) columns() string {
	var moved, other, slowest Sample
	var total Trial
	for _, trial := range r.Trials {
		moved.Add(trial.MovedKeys)
		other.Add(trial.OtherKeys)
		slowest.Add(trial.Slowest)
		total.Failed += trial.Failed
		total.Aborted += trial.Aborted
		total.Queued += trial.Queued
		total.Shards += trial.Shards
	}
	trials := float64(max(len(r.Trials), 1))
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%.1f\t%.1f\t%s",
		moved, other, slowest, total.Failed, total.Aborted, float64(total.Queued)/trials, float64(total.Shards)/trials, r.Target)
}
