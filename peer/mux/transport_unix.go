//go:build unix

package mux

import (
	"errors"
	"syscall"

	"shardway/internal/rawio"
)

// canSend says that sendTo sends.
const canSend = true

// sendTo sends what there is room for.
func (s *socket) sendTo(fd uintptr) bool {
	n, err := rawio.Write(fd, s.b)
	if s.n = n; err != nil && !errors.Is(err, syscall.EAGAIN) {
		s.err = err
	}
	return true
}
