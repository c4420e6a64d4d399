//go:build race

package raceflag

// Detector tells that the race detector is compiled in.
const Detector = true
