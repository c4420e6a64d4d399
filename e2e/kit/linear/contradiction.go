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

// contradiction is a few operations that no order explains.
type contradiction struct {
	why string
	ops []settled
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
	text.WriteString(c.why)
	ops := slices.Clone(c.ops)
	slices.SortStableFunc(ops, func(a, b settled) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range ops {
		end := "…"
		if op.Outcome != Unknown {
			end = since(ops[0].Call, op.Return)
		}
		fmt.Fprintf(&text, "\n\t\t%12s – %-12s %s", since(ops[0].Call, op.Call), end, op.Op)
		if op.Write && op.from == op.until {
			fmt.Fprintf(&text, ", applied at %s", since(ops[0].Call, op.from))
		}
	}
	return text.String()
}

func (c contradiction) err() error { return errors.New(c.String()) }

func since(start, at int64) string {
	return time.Duration(at - start).Round(time.Microsecond).String()
}
