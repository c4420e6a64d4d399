//go:build linux

package linear

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// contradiction is a small set of operations that no order explains.
type contradiction struct {
	reason string
	ops    []timedOp
}

// span returns the time between the first and the last of its calls.
func (c contradiction) span() int64 {
	first, last := c.ops[0].Call, c.ops[0].Call
	for _, op := range c.ops {
		first, last = min(first, op.Call), max(last, op.Call)
	}
	return last - first
}

// String lists the operations in the order of their calls, with times since the first
// call.
func (c contradiction) String() string {
	var text strings.Builder
	text.WriteString(c.reason)
	ops := slices.Clone(c.ops)
	slices.SortStableFunc(ops, func(a, b timedOp) int { return cmp.Compare(a.Call, b.Call) })
	start := ops[0].Call
	for _, op := range ops {
		end := "…"
		if op.Outcome != Unknown {
			end = formatSince(start, op.Return)
		}
		fmt.Fprintf(&text, "\n\t\t%12s – %-12s %s", formatSince(start, op.Call), end, op.Op)
		if op.Write && op.earliest == op.latest {
			fmt.Fprintf(&text, ", applied at %s", formatSince(start, op.earliest))
		}
	}
	return text.String()
}

// err returns the text of the contradiction as an error.
func (c contradiction) err() error { return errors.New(c.String()) }

// formatSince returns the time between two values of history.Now, rounded to microseconds.
func formatSince(start, at int64) string {
	return time.Duration(at - start).Round(time.Microsecond).String()
}
