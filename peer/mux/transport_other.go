//go:build !unix

package mux

// canTrySend reports whether trySend works.
const canTrySend = false

func (tr *transport) sendToFD(uintptr) bool { return true }
