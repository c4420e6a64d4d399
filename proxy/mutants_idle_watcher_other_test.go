//go:build !linux

package proxy_test

// mutantsOfIdleWatcher returns none, because this system does not park connections.
func mutantsOfIdleWatcher() []mutant { return nil }
