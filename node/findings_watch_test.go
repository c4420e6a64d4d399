package node_test

import (
	"testing"
	"time"
)

// When nothing has changed for a while, findings are evaluated half as often. After a change, they are evaluated at the full rate again.
func TestFindingsAreEvaluatedLessOftenWithoutChanges(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		looks := func() int {
			n, last := 0, any(nil)
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if now := w.all["a"].node.Found(); now != last {
					n, last = n+1, now
				}
			}
			return n
		}
		time.Sleep(30 * time.Second)
		if n := looks(); n < 9 || n > 12 {
			w.t.Errorf("%d looks in 5 s of calm, want 10", n)
		}
		w.all["b"].kill()
		time.Sleep(4 * time.Second)
		if n := looks(); n < 18 || n > 23 {
			w.t.Errorf("%d looks in 5 s after a node has gone, want 20", n)
		}
	})
}
