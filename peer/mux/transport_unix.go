//go:build unix

package mux

import (
	"errors"
	"syscall"

	"shardway/internal/rawio"
)

// canSend says that sendTo sends.
const canTrySend = true

// sendTo sends what there is room for.
func (tr *transport) sendToFD(fd uintptr) bool {
	n, err := rawio.Write(fd, tr.pending)
	if tr.sent = n; err != nil && !errors.Is(err, syscall.EAGAIN) {
		tr.err = err
	}
	return true
}
