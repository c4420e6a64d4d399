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
func (b *Budget) Sharing(bytes *Budget) *Budget {
	b.share = bytes
	return b
}

// window is what a lane begins with.
func (b *Budget) window() int {
	if b.share != nil {
		return FirstWindow
	}
	return Window
}

// tight reports whether more than half is lent.
func (b *Budget) tight() bool {
	return b.lent.Load() > b.most/2 || b.of != nil && b.of.tight()
}

// refill returns how much credit comes back for what has been eaten. Of a lane that shares, the
// window grows where little of it was left: who says what is longer than an eighth of it, or has
// not waited to be read. With mu held.
func (l *Lane) refill() int {
	back := l.eaten
	l.eaten = 0
	share := l.t.budget.share
	switch {
	case share == nil:
	case 8*l.allowed < 3*l.window:
		if more := min(l.window, Window-l.window); more > 0 && share.lend(int32(more)) {
			l.window += more
			back += more
		}
	case share.tight():
		less := min(back, l.window-max(l.window/2, FirstWindow))
		share.back(int32(less))
		l.window -= less
		back -= less
	}
	return back
}

// unshare gives back what the lane was lent: it keeps nothing any more, whatever comes. With mu
// held.
func (l *Lane) unshare() {
	if share := l.t.budget.share; share != nil {
		share.back(int32(l.window - FirstWindow))
		l.window = FirstWindow
	}
}
