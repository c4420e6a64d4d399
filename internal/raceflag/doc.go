// Package raceflag reports whether the race detector is compiled in. The detector makes
// programs slow, and repeating a test rarely finds more races than its first rounds. Tests
// therefore run fewer rounds with the detector.
//
// Only tests use this package.
package raceflag

// Share returns all, or with the race detector the smaller number race.
func Share(all, race int) int {
	if Detector {
		return race
	}
	return all
}
