package processors

import (
	"runtime"
	"testing"
)

// AtLeast raises the number of processors until its result is called, regardless of the decisions of the
// Governor in the meantime.
func TestAtLeastRaisesCountUntilRelease(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() {
		count.want = 0
		runtime.GOMAXPROCS(before)
	})
	check := func(situation string, want int) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%s: %d processors, want %d", situation, got, want)
		}
	}
	setCount(1)
	release := AtLeast(2)
	check("decided 1, requested 2", 2)
	setCount(1)
	check("decided 1 again", 2)
	setCount(3)
	check("decided more than requested", 3)
	setCount(1)
	check("decided less than requested", 2)
	release()
	check("request released", 1)

	setCount(3)
	release = AtLeast(2)
	check("requested less than decided", 3)
	setCount(1)
	check("decided less during the request", 2)
	release()
	check("request released after a decision", 1)

	setCount(1)
	release = AtLeast(2)
	setCount(4)
	release()
	check("request released after a higher decision", 4)

	count.want = 0 // no decision
	runtime.GOMAXPROCS(1)
	AtLeast(2)()
	check("request released without a decision", 1)
}
