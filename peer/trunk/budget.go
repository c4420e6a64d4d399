package trunk

import "sync/atomic"

// Budget counts the lanes that one node has opened to another, whichever trunks they go by:
// for each of them a node may have to keep Window bytes for the other.
type Budget struct {
	most int32
	of   *Budget // whose part it is; nil: nobody's
	lent atomic.Int32
}

// NewBudget returns a budget of so many lanes, which count in another one, too.
func NewBudget(most int32, of *Budget) *Budget { return &Budget{most: most, of: of} }

// lend takes a lane; false: the budget is spent.
func (b *Budget) lend() bool {
	if b.lent.Add(1) > b.most || b.of != nil && !b.of.lend() {
		b.lent.Add(-1)
		return false
	}
	return true
}

// back gives one back.
func (b *Budget) back() {
	b.lent.Add(-1)
	if b.of != nil {
		b.of.back()
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

// Lent returns how many lanes are open.
func (b *Budget) Lent() int { return int(b.lent.Load()) }
