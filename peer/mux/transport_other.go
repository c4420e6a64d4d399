//go:build !unix

package mux

// canTrySend reports whether trySend is implemented on this platform.
const canTrySend = false

func (tr *transport) sendToFD(uintptr) bool { return true }
