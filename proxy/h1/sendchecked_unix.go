//go:build unix

package h1

import (
	"syscall"

	"shardway/internal/rawio"
)

// sendFirst sends the buffered data that the socket accepts without blocking, if the socket has nothing to read.
// sentAll reports whether all data was sent. It runs within a read of the runtime poller, which has already cleared
// earlier events, so data that arrives after the check ends the following wait.
func (w *Writer) sendFirst(fd uintptr) (sentAll bool, err error) {
	if w.err != nil {
		return false, w.err
	}
	if _, err = rawio.Read(fd, w.peekBuf[:]); err != syscall.EAGAIN { //nolint:errorlint // never wrapped
		return false, ErrUnsolicitedData
	}
	if w.restTimeout, err = w.checkPrecondition(); err != nil {
		return false, err
	}
	n, err := rawio.Write(fd, w.buf[:w.buffered])
	w.sent += int64(n)
	switch {
	case err == syscall.EAGAIN: //nolint:errorlint // never wrapped
		return false, nil
	case err != nil:
		w.err = err
		return false, err
	}
	w.buffered = copy(w.buf, w.buf[n:w.buffered])
	w.releaseEmptyBuffer()
	return w.buffered == 0, nil
}
