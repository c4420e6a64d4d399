//go:build !linux

package proxy_test

// mutantsOfParking returns none, because this system does not park connections.
func mutantsOfParking() []mutant { return nil }
