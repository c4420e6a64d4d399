// Package raceflag tells tests whether the race detector is compiled in. It makes
// everything slow, and what has been accessed by two goroutines in the first round of
// something is the same in the tenth: tests play a share with it, and all without.
//
// Only tests use it.
package raceflag

// Share is how much of something a run does that takes long: all, or with the race
// detector the smaller part.
func Share(all, race int) int {
	if Detector {
		return race
	}
	return all
}
