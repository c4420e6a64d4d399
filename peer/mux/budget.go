package mux

import "sync/atomic"

// Budget counts the lanes that one node has opened to another, whichever trunks they go by:
// for each of them a node may have to keep Window bytes for the other. One of bytes is Sharing's.
type Budget struct {
	limit      int32
	parent     *Budget // whose part it is; nil: nobody's
	windowPool *Budget // bytes that its lanes share; nil: each has Window
	used       atomic.Int32
}

// NewBudget returns a budget of so many lanes, which count in another one, too.
func NewBudget(most int32, of *Budget) *Budget { return &Budget{limit: most, parent: of} }

// lend takes a lane, or so many bytes; false: the budget is spent.
func (b *Budget) acquire(n int32) bool {
	if b.used.Add(n) > b.limit || b.parent != nil && !b.parent.acquire(n) {
		b.used.Add(-n)
		return false
	}
	return true
}

// back gives that back.
func (b *Budget) release(n int32) {
	b.used.Add(-n)
	if b.parent != nil {
		b.parent.release(n)
	}
}

// forsake gives one back whose trunk has broken, though who was given it may be at work on it
// still: it counts in the last budget alone that this one is a part of, which it returns, or in
// none. So another trunk has all that a node may have, and what many broken ones have left
// behind is bounded.
func (b *Budget) releaseBelowRoot() *Budget {
	for ; b.parent != nil; b = b.parent {
		b.used.Add(-1)
		if b.parent.parent == nil {
			return b.parent
		}
	}
	b.used.Add(-1)
	return nil
}

// Lent returns how many lanes are open, or bytes are lent.
func (b *Budget) InUse() int { return int(b.used.Load()) }
