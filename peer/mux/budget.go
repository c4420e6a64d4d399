package mux

import "sync/atomic"

// Budget counts the lanes that one node has opened to another, whichever trunks they go by:
// for each of them a node may have to keep Window bytes for the other. One of bytes is Sharing's.
type Budget struct {
	most  int32
	of    *Budget // whose part it is; nil: nobody's
	share *Budget // bytes that its lanes share; nil: each has Window
	lent  atomic.Int32
}

// NewBudget returns a budget of so many lanes, which count in another one, too.
func NewBudget(most int32, of *Budget) *Budget { return &Budget{most: most, of: of} }

// lend takes a lane, or so many bytes; false: the budget is spent.
func (b *Budget) lend(n int32) bool {
	if b.lent.Add(n) > b.most || b.of != nil && !b.of.lend(n) {
		b.lent.Add(-n)
		return false
	}
	return true
}

// back gives that back.
func (b *Budget) back(n int32) {
	b.lent.Add(-n)
	if b.of != nil {
		b.of.back(n)
	}
}

// forsake gives one back whose trunk has broken, though who was given it may be at work on it
// still: it counts in the last budget alone that this one is a part of, which it returns, or in
// none. So another trunk has all that a node may have, and what many broken ones have left
// behind is bounded.
func (b *Budget) forsake() *Budget {
	for ; b.of != nil; b = b.of {
		b.lent.Add(-1)
		if b.of.of == nil {
			return b.of
		}
	}
	b.lent.Add(-1)
	return nil
}

// Lent returns how many lanes are open, or bytes are lent.
func (b *Budget) Lent() int { return int(b.lent.Load()) }
