package processors

import (
	"runtime"
	"sync"
)

// count is the number of processors that the process uses. It is the larger of the numbers requested by Run and
// AtLeast.
var count struct {
	sync.Mutex
	want  int // the decision of Run; zero means none yet
	least int // the request of AtLeast; zero means none
}

// setMaximum makes the process use all permitted processors and returns their number. The number may
// differ between calls, because the limit of the control group can change.
func setMaximum() int {
	count.Lock()
	defer count.Unlock()
	runtime.SetDefaultGOMAXPROCS()
	count.want = runtime.GOMAXPROCS(0)
	if count.want < count.least {
		runtime.GOMAXPROCS(count.least)
	}
	return count.want
}

// setCount makes the process use the wanted number of processors, or more if AtLeast requests more.
func setCount(wanted int) {
	count.Lock()
	defer count.Unlock()
	count.want = wanted
	runtime.GOMAXPROCS(max(wanted, count.least))
}

// AtLeast makes the process use at least the minimum number of processors until release, for work that occupies one
// of them for a long time. Run continues. Only one goroutine may call it at a time.
func AtLeast(minimum int) (release func()) {
	count.Lock()
	defer count.Unlock()
	count.least = minimum
	if before := runtime.GOMAXPROCS(0); before < minimum {
		if count.want == 0 {
			count.want = before
		}
		runtime.GOMAXPROCS(minimum)
	}
	return func() {
		count.Lock()
		defer count.Unlock()
		count.least = 0
		if count.want != 0 && count.want != runtime.GOMAXPROCS(0) {
			runtime.GOMAXPROCS(count.want)
		}
	}
}
