//go:build linux

package history

import "math"

// Stop is a time in which a node's process stood still or was dead. Until is 0
// while it lasts.
type Stop struct {
	Node        string
	From, Until int64
}

// touches tells whether r was under way at the node while it stood still: what
// its app does then, only the epoch fences.
func (s Stop) touches(r Run) bool {
	until := s.Until
	if until == 0 {
		until = math.MaxInt64
	}
	return s.Node == r.App && r.Start < until && r.end() > s.From
}

// end is End, or the end of time for a run that never ended.
func (r Run) end() int64 {
	if r.End == 0 {
		return math.MaxInt64
	}
	return r.End
}
