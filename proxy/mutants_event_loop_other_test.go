//go:build !linux

package proxy_test

// mutantsOfEventLoops: there are no loops here.
func mutantsOfEventLoops() []mutant { return nil }
