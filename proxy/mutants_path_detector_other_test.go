//go:build !linux

package proxy_test

// mutantsOfPathDetector returns none, because this kernel provides no path information.
func mutantsOfPathDetector() []mutant { return nil }
