//go:build !race

package node_test

// share is how much of something a run does that takes longest: under the race
// detector, the smaller part.
func share(all, _ int) int { return all }
