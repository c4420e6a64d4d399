package retry

import "sync/atomic"

const (
	// budgetPerRetry requests earn one retry: 20 % of requests may go twice.
	budgetPerRetry = 5
	// budgetMax bounds what may be saved up: a burst of 1000 retries, about what
	// runs through a node that dies.
	budgetMax = 1000 * budgetPerRetry
)

// Budget bounds how often requests that may have reached an app are sent again,
// so that a failing app is not given its own load a second time. It starts full.
// What was never sent goes again without it.
type Budget struct {
	saved atomic.Int64
}

func (b *Budget) Fill() { b.saved.Store(budgetMax) }

// Earn counts a request. Full, as it nearly always is, it only reads.
func (b *Budget) Earn() {
	if b.saved.Load() < budgetMax {
		b.saved.Add(1)
	}
}

// Spend takes one retry out of the budget, if there is one.
func (b *Budget) Spend() bool {
	if b.saved.Add(-budgetPerRetry) >= 0 {
		return true
	}
	b.saved.Add(budgetPerRetry)
	return false
}
