//go:build !linux

package h1

// sendQueue returns -1 (unknown), because it is implemented for Linux only.
func sendQueue(uintptr) int { return -1 }
