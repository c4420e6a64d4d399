package retry

import "sync/atomic"

const (
	// perRetry is the number of requests that earn one retry: 20 % of requests may be sent twice.
	perRetry = 5
	// maxSaved caps the budget at 1000 retries, about the number of requests in flight at a node that dies.
	maxSaved = 1000 * perRetry
)

// Budget limits how often requests that may have reached an app are retried. A request that was
// never sent needs no budget. Fill must be called first.
type Budget struct {
	saved atomic.Int64
}

// Fill sets the budget to its maximum.
func (b *Budget) Fill() { b.saved.Store(maxSaved) }

// Earn counts a request. If the budget is full, as it nearly always is, Earn only reads it.
func (b *Budget) Earn() {
	if b.saved.Load() < maxSaved {
		b.saved.Add(1)
	}
}

// Spend takes one retry from the budget, and reports whether there was one.
func (b *Budget) Spend() bool {
	if b.saved.Add(-perRetry) >= 0 {
		return true
	}
	b.saved.Add(perRetry)
	return false
}
