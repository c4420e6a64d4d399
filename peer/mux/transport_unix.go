//go:build unix

package mux

import (
	"errors"
	"syscall"

	"shardway/internal/rawio"
)

// canTrySend reports whether trySend is implemented on this platform.
const canTrySend = true

// sendToFD writes what the socket accepts.
func (tr *transport) sendToFD(fd uintptr) bool {
	n, err := rawio.Write(fd, tr.pending)
	if tr.sent = n; err != nil && !errors.Is(err, syscall.EAGAIN) {
		tr.err = err
	}
	return true
}
