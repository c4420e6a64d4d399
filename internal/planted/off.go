//go:build !planted

package planted

// Built tells whether this program has planted bugs at all.
const Built = false

// On tells whether the program is to have the bug: never.
func On(Bug) bool { return false }

// First is value.
func First(_ int, value uint64) uint64 { return value }

// Present is none.
func Present() (Bug, error) { return 0, nil }
