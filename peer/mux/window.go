package mux

// FirstWindow is the window that a lane begins with whose trunk shares bytes: so many that each
// lane always has them, and what is small still never waits for credit. It is part of the
// protocol.
const FirstWindow = 4 << 10

// Sharing has the lanes that count in b begin with FirstWindow, and share these bytes beyond that,
// of what may be on its way to this end and what has come and not been read. Both ends of a trunk
// must agree on whether they share. Nil: they do not.
//
// A lane whose reader takes what comes, and whose other end has more to say, is lent bytes for a
// window twice as large, up to Window, as long as there are any. What nobody reads is never lent
// for, so lanes that stand still have what they had, and the rest go on: at FirstWindow for each
// way there and back at least. Half of what there is is lent to who asks first; from then on a
// lane that does not need its window gives of it back.
func (b *Budget) WithWindowPool(bytes *Budget) *Budget {
	b.windowPool = bytes
	return b
}

// window is what a lane begins with.
func (b *Budget) initialWindow() int {
	if b.windowPool != nil {
		return FirstWindow
	}
	return Window
}

// tight reports whether more than half is lent.
func (b *Budget) mostlyUsed() bool {
	return b.used.Load() > b.limit/2 || b.parent != nil && b.parent.mostlyUsed()
}

// refill returns how much credit comes back for what has been eaten. Of a lane that shares, the
// window grows where little of it was left: who says what is longer than an eighth of it, or has
// not waited to be read. With mu held.
func (st *Stream) takeCreditLocked() int {
	back := st.consumed
	st.consumed = 0
	share := st.session.budget.windowPool
	switch {
	case share == nil:
	case 8*st.recvCredit < 3*st.window:
		if more := min(st.window, Window-st.window); more > 0 && share.acquire(int32(more)) {
			st.window += more
			back += more
		}
	case share.mostlyUsed():
		less := min(back, st.window-max(st.window/2, FirstWindow))
		share.release(int32(less))
		st.window -= less
		back -= less
	}
	return back
}

// unshare gives back what the lane was lent: it keeps nothing any more, whatever comes. With mu
// held.
func (st *Stream) returnWindowLocked() {
	if share := st.session.budget.windowPool; share != nil {
		share.release(int32(st.window - FirstWindow))
		st.window = FirstWindow
	}
}
