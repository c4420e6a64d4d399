//go:build !linux

package proxy_test

// mistakesOfPaths are none where the kernel tells nothing of paths.
func mistakesOfPaths() []mistake { return nil }
