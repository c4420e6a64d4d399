//go:build !linux && !darwin

package cli

// fileLimit returns zero, which means unknown.
func fileLimit() uint64 { return 0 }
