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
		number.want = 0
		runtime.GOMAXPROCS(before)
	})
	is := func(n int, what string) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != n {
			t.Errorf("%s: %d processors, want %d", what, got, n)
		}
	}
	use(1)
	release := AtLeast(2)
	is(2, "one, and two are asked for")
	use(1)
	is(2, "decided anew")
	use(3)
	is(3, "more are decided on")
	use(1)
	is(2, "and one again")
	release()
	is(1, "let go")

	use(3)
	release = AtLeast(2)
	is(3, "there are more")
	use(1)
	is(2, "and fewer meanwhile")
	release()
	is(1, "and let go")

	use(1)
	release = AtLeast(2)
	use(4)
	release()
	is(4, "let go after more were decided on")

	number.want = 0 // nobody decides
	runtime.GOMAXPROCS(1)
	AtLeast(2)()
	is(1, "as its environment says")
}
