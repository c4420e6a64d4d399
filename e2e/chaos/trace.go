//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"time"
)

// trace is the list of events of a run with their times.
type trace struct {
	start time.Time
	lines []string
}

func (t *trace) begin() { t.start = time.Now() }

func (t *trace) add(text string) {
	t.lines = append(t.lines, fmt.Sprintf("%9.3fs  %s", time.Since(t.start).Seconds(), text))
}

// String returns the trace, one event per line.
func (t *trace) String() string { return strings.Join(t.lines, "\n") }
