//go:build !linux

package proxy_test

// mutantsOfEventLoops: there are no loops here.
func mistakesOfLoops() []mistake { return nil }
