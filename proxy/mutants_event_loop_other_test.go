//go:build !linux

package proxy_test

// mutantsOfEventLoops returns none, because this system has no event loops.
func mutantsOfEventLoops() []mutant { return nil }
