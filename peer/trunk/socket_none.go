//go:build !unix

package trunk

// canSend says that sendTo sends.
const canSend = false

func (s *socket) sendTo(uintptr) bool { return true }
