package processors

import (
	"runtime"
	"testing"
)

// What asks for more processors than the Governor has decided on has them until it lets go,
// whatever that decides meanwhile.
func TestAtLeast(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() {
		count.want = 0
		runtime.GOMAXPROCS(before)
	})
	is := func(n int, what string) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != n {
			t.Errorf("%s: %d processors, want %d", what, got, n)
		}
	}
	setCount(1)
	release := AtLeast(2)
	is(2, "one, and two are asked for")
	setCount(1)
	is(2, "decided anew")
	setCount(3)
	is(3, "more are decided on")
	setCount(1)
	is(2, "and one again")
	release()
	is(1, "let go")

	setCount(3)
	release = AtLeast(2)
	is(3, "there are more")
	setCount(1)
	is(2, "and fewer meanwhile")
	release()
	is(1, "and let go")

	setCount(1)
	release = AtLeast(2)
	setCount(4)
	release()
	is(4, "let go after more were decided on")

	count.want = 0 // nobody decides
	runtime.GOMAXPROCS(1)
	AtLeast(2)()
	is(1, "as its environment says")
}
