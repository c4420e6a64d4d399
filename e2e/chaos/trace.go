//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"time"
)

// trace is what happened, and when.
type trace struct {
	start time.Time
	lines []string
}

func (t *trace) begin() { t.start = time.Now() }

func (t *trace) add(text string) {
	t.lines = append(t.lines, fmt.Sprintf("%9.3fs  %s", time.Since(t.start).Seconds(), text))
}

// String is the trace, one event a line.
func (t *trace) String() string { return strings.Join(t.lines, "\n") }
