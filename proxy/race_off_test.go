//go:build !race

package proxy_test

// raceEnabled tells that sync.Pool forgets things on purpose.
const raceEnabled = false
