//go:build !linux

package proxy_test

// mutantsOfPathDetector are none where the kernel tells nothing of paths.
func mutantsOfPathDetector() []mutant { return nil }
