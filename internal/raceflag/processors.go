package raceflag

import "runtime"

// OneProcessor sets GOMAXPROCS to 1 if the race detector is compiled in, for tests in
// synctest bubbles. If two processors run timers of one bubble at the same time, the
// detector crashes the process with "ThreadSanitizer: CHECK failed" (go.dev/issue/78156).
// The detector finds the same races with one processor, because it uses the happens-before
// order and not the timing.
//
// Call it in TestMain. In a package with other tests that use real sockets, call it for
// each bubble, and only while no other test runs. restore resets GOMAXPROCS.
func OneProcessor() (restore func()) {
	if !Detector {
		return func() {}
	}
	before := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(before) }
}
