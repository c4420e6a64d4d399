//go:build !linux

package h1

// sendQueue has no portable form.
func sendQueue(uintptr) int { return -1 }
