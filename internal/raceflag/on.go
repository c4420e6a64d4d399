//go:build race

package raceflag

// Detector reports whether the race detector is compiled in.
const Detector = true
