package processors

import (
	"runtime"
	"sync"
)

// number is the number of processors of the process: the maximum of the decision of Run and of the
// present request of AtLeast.
var number struct {
	sync.Mutex
	want  int // Run's; zero: it has not decided
	least int // AtLeast's; zero: nobody asks
}

// all has the process use all processors that it may use now, and returns how many they
// are: the limit of its control group can change.
func all() int {
	number.Lock()
	defer number.Unlock()
	runtime.SetDefaultGOMAXPROCS()
	number.want = runtime.GOMAXPROCS(0)
	if number.want < number.least {
		runtime.GOMAXPROCS(number.least)
	}
	return number.want
}

// use has the process use n processors.
func use(n int) {
	number.Lock()
	defer number.Unlock()
	number.want = n
	runtime.GOMAXPROCS(max(n, number.least))
}

// AtLeast makes the process use at least n processors until release, for work that occupies one of
// them for long. Run continues. Only one goroutine at a time may call it.
func AtLeast(n int) (release func()) {
	number.Lock()
	defer number.Unlock()
	number.least = n
	if before := runtime.GOMAXPROCS(0); before < n {
		if number.want == 0 {
			number.want = before
		}
		runtime.GOMAXPROCS(n)
	}
	return func() {
		number.Lock()
		defer number.Unlock()
		number.least = 0
		if number.want != 0 && number.want != runtime.GOMAXPROCS(0) {
			runtime.GOMAXPROCS(number.want)
		}
	}
}
