//go:build unix

package h1

import (
	"syscall"

	"shardway/internal/rawio"
)

// sendFirst sends the buffered data that the socket accepts without blocking, if the socket has
// nothing to read. whole reports whether all data was sent. It runs within a read of the runtime's
// poller, which has cleared earlier events. So data that arrives after the check ends the wait that
// follows.
func (w *Writer) sendFirst(fd uintptr) (whole bool, err error) {
	if w.err != nil {
		return false, w.err
	}
	if _, err = rawio.Read(fd, w.look[:]); err != syscall.EAGAIN { //nolint:errorlint // never wrapped
		return false, ErrUnsolicitedData
	}
	if w.rest, err = w.limit(); err != nil {
		return false, err
	}
	n, err := rawio.Write(fd, w.buf[:w.n])
	w.sent += int64(n)
	switch {
	case err == syscall.EAGAIN: //nolint:errorlint // never wrapped
		return false, nil
	case err != nil:
		w.err = err
		return false, err
	}
	w.n = copy(w.buf, w.buf[n:w.n])
	w.release()
	return w.n == 0, nil
}
