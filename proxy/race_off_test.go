//go:build !race

package proxy_test

// raceEnabled reports whether the race detector is active. With it, a sync.Pool drops some objects on
// purpose.
const raceEnabled = false
