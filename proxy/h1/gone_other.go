//go:build !unix

package h1

// peerGone returns false, because these systems cannot check a socket without reading from it.
func peerGone(uintptr) bool { return false }

// readWouldBlock returns true, because these systems cannot check a socket without reading from it.
func readWouldBlock(uintptr) bool { return true }
