//go:build !linux

package proxy_test

// mistakesOfLoops: there are no loops here.
func mistakesOfLoops() []mistake { return nil }
