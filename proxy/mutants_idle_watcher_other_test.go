//go:build !linux

package proxy_test

// mutantsOfIdleWatcher are none where nothing is parked.
func mutantsOfIdleWatcher() []mutant { return nil }
