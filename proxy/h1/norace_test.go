//go:build !race

package h1_test

// raceEnabled reports whether the race detector is active. With it, a sync.Pool drops some objects.
const raceEnabled = false
