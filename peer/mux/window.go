package mux

// FirstWindow is the initial window of a stream whose session has a window pool. A stream always
// has at least this window, so a small message never waits for credit. It is part of the protocol.
const FirstWindow = 4 << 10

// WithWindowPool makes streams that count in b start with FirstWindow and share the bytes of pool
// for larger windows. The pool bounds the bytes that are on their way to this end or unread,
// beyond FirstWindow for each stream. Both ends of a session must agree on whether they use a
// pool. nil means no pool. It returns b.
//
// The window of a stream doubles, up to Window, if its reader keeps up, its peer has more to send,
// and the pool has bytes left. Unread data never enlarges a window, so stalled streams keep what
// they have, and all others continue with at least FirstWindow for each round trip. The first half
// of the pool goes to the first streams that need it. Beyond that, a stream that does not need its
// window returns a part of it.
func (b *Budget) WithWindowPool(pool *Budget) *Budget {
	b.windowPool = pool
	return b
}

// initialWindow returns the window of a new stream.
func (b *Budget) initialWindow() int {
	if b.windowPool != nil {
		return FirstWindow
	}
	return Window
}

// mostlyUsed reports whether more than half of b, or of one of its parents, is in use.
func (b *Budget) mostlyUsed() bool {
	return b.used.Load() > b.limit/2 || b.parent != nil && b.parent.mostlyUsed()
}

// takeCreditLocked returns the credit to announce for the consumed bytes. With a window pool, the
// window grows if little of it was left: the peer writes messages longer than an eighth of it, or
// does not wait for the reader.
func (st *Stream) takeCreditLocked() int {
	credit := st.consumed
	st.consumed = 0
	pool := st.session.budget.windowPool
	switch {
	case pool == nil:
	case 8*st.recvCredit < 3*st.window:
		grow := min(st.window, Window-st.window) // double the window, up to Window
		if grow > 0 && pool.acquire(int32(grow)) {
			st.window += grow
			credit += grow
		}
	case pool.mostlyUsed():
		halved := max(st.window/2, FirstWindow)
		shrink := min(credit, st.window-halved)
		pool.release(int32(shrink))
		st.window -= shrink
		credit -= shrink
	}
	return credit
}

// returnWindowLocked returns the bytes of the stream to the window pool. The stream stores no data
// after that.
func (st *Stream) returnWindowLocked() {
	if pool := st.session.budget.windowPool; pool != nil {
		pool.release(int32(st.window - FirstWindow))
		st.window = FirstWindow
	}
}
