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
	for _, s := range c.ops {
		first, last = min(first, s.Call), max(last, s.Call)
	}
	return last - first
}

// String lists the operations in the order of their calls, with times since the first
// call.
func (c contradiction) String() string {
	var b strings.Builder
	b.WriteString(c.why)
	ops := slices.Clone(c.ops)
	slices.SortStableFunc(ops, func(a, b settled) int { return cmp.Compare(a.Call, b.Call) })
	for _, s := range ops {
		end := "…"
		if s.Outcome != Unknown {
			end = since(ops[0].Call, s.Return)
		}
		fmt.Fprintf(&b, "\n\t\t%12s – %-12s %s", since(ops[0].Call, s.Call), end, s.Op)
		if s.Write && s.from == s.until {
			fmt.Fprintf(&b, ", applied at %s", since(ops[0].Call, s.from))
		}
	}
	return b.String()
}

func (c contradiction) err() error { return errors.New(c.String()) }

func since(start, at int64) string {
	return time.Duration(at - start).Round(time.Microsecond).String()
}
