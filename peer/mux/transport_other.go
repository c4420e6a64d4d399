//go:build !unix

package mux

// canSend says that sendTo sends.
const canSend = false

func (s *socket) sendTo(uintptr) bool { return true }
