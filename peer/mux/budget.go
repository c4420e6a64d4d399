package mux

import "sync/atomic"

// Budget limits the streams that one node has opened to another, over all sessions between them.
// Each of these streams may keep up to Window unread bytes. A Budget also serves as a window pool,
// and then counts bytes. It is safe for concurrent use.
type Budget struct {
	limit      int32
	parent     *Budget // also counts the same usage; nil means none
	windowPool *Budget // bytes that the streams share; nil means that each stream has Window
	used       atomic.Int32
}

// NewBudget returns a budget with the given limit. Its usage is also counted in parent; nil means
// no parent.
func NewBudget(limit int32, parent *Budget) *Budget { return &Budget{limit: limit, parent: parent} }

// acquire reserves n streams or bytes. It returns false, and reserves nothing, if a limit would be
// exceeded.
func (b *Budget) acquire(n int32) bool {
	withinLimits := b.used.Add(n) <= b.limit && (b.parent == nil || b.parent.acquire(n))
	if !withinLimits {
		b.used.Add(-n)
	}
	return withinLimits
}

// release returns n streams or bytes.
func (b *Budget) release(n int32) {
	b.used.Add(-n)
	if b.parent != nil {
		b.parent.release(n)
	}
}

// releaseBelowRoot returns one stream of a failed session whose owner may still be at work. The
// stream continues to count only in the topmost parent, which is returned; nil means that b has no
// parent. A new session can therefore use the whole budget of a node, and the number of streams
// that many failed sessions leave behind is limited.
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

// InUse returns how many streams or bytes are in use.
func (b *Budget) InUse() int { return int(b.used.Load()) }
