//go:build !race

package racing

// Detector tells that the race detector is compiled in.
const Detector = false
