package processors

import (
	"runtime"
	"sync"
)

// number is the number of processors of the process: the maximum of the decision of Run and of the
// present request of AtLeast.
var number struct {
	sync.Mutex
	want  int // the decision of Run; zero means none yet
	least int // the request of AtLeast; zero means none
}

// all makes the process use all permitted processors and returns their number. The number may
// differ between calls, because the limit of the control group can change.
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

// use makes the process use n processors, or more if AtLeast requests more.
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
