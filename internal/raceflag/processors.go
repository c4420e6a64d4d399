package raceflag

import "runtime"

// OneProcessor has tests that live in bubbles (testing/synctest) go on by one processor
// under the race detector: two at once that run timers of one bubble break the detector
// itself, and end the process with "ThreadSanitizer: CHECK failed" (go.dev/issue/78156).
// Nothing is found less: the detector judges by what must happen before what, and not
// by what was seen at one time.
//
// It is for TestMain, or where sockets are real elsewhere in the package for each bubble,
// beside which no other test runs then: restore has as many go on as before.
func OneProcessor() (restore func()) {
	if !Detector {
		return func() {}
	}
	before := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(before) }
}
