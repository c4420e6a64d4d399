package retry

import "testing"

// A node that has used up its burst retries only one in five requests.
func TestRetriesStayWithinTheBudget(t *testing.T) {
	var b Budget
	b.Fill()
	saved := 0
	for b.Spend() {
		saved++
	}
	if saved != 1000 {
		t.Errorf("%d retries were saved up, want 1000", saved)
	}
	again := 0
	for range 500 {
		b.Earn()
		if b.Spend() {
			again++
		}
	}
	if again != 100 {
		t.Errorf("%d retries of 500 requests, want 100", again)
	}
	for range 20_000 {
		b.Earn()
	}
	if n := b.saved.Load(); n != maxSaved {
		t.Errorf("saved %d, want no more than %d", n, maxSaved)
	}
}
