//go:build linux

package history

// Stop is a time in which a node's process stood still, or the moment in which it
// died: its connections end with it. Until is 0 while it lasts.
type Stop struct {
	Node        string
	From, Until int64
}

func (s Stop) until() int64 { return orNever(s.Until) }

// end is End, or the end of time for a run that never ended.
func (r Run) end() int64 { return orNever(r.End) }

// orNever takes 0 for a time that has not come.
func orNever(t int64) int64 {
	if t == 0 {
		return never
	}
	return t
}
