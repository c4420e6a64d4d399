//go:build race

package h1_test

// raceEnabled tells that the race detector makes pools forget.
const raceEnabled = true
