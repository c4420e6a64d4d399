package h1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// connReader is the reading half of a Conn. One goroutine owns it; other goroutines may use only the
// fields of mu.
type connReader struct {
	// The source of the data.
	nc   net.Conn
	sock *socket         // direct access to the socket of nc; nil means that nc.Read is used
	mux  MuxStream       // nc, if it is a stream of a multiplexed session; otherwise nil
	raw  syscall.RawConn // result of rawConn; nil means not determined yet, or no socket

	// Configuration, from Options and Timeouts.
	pool                *Buffers
	initialSize         int           // bytes of the first buffer
	maxSize             int           // bytes up to which the buffer grows for a header
	bodyTimeout         time.Duration // Timeouts.Body
	closeWriteAfterIdle bool          // Options.CloseWriteAfterIdle
	minRate             int64         // Timeouts.MinRate
	rateGrace           time.Duration // Timeouts.RateGrace

	// The read buffer. buf[readPos:writePos] contains data that was read and not consumed. A nil buf
	// means that no buffer is borrowed from the pool.
	buf               []byte
	readPos, writePos int
	smallBuf          [16]byte // buffer of fillWithSmallBuffer

	filledBuffer bool      // the last read filled the whole buffer, so the socket may contain more data
	received     int64     // bytes read from the connection so far
	deadline     time.Time // current read deadline; zero means none

	mu struct {
		sync.Mutex
		waiting       bool   // a read waits for the first byte of a request
		stopWaiting   bool   // StopWaiting was called
		parkRequested bool   // RequestPark was called, and the wait has not returned yet
		stopRead      bool   // StopRead was called
		paused        bool   // PauseRead was called, and ResumeRead was not
		wake          func() // wakes a parked reader; nil means that none is parked
		unwatch       func() // ends the registration with the Watcher of Park
	}
}

// past returns a deadline that lies in the past on any clock.
func past() time.Time { return time.Unix(1, 0) }

// unread returns the buffered data that has not been consumed.
func (in *connReader) unread() []byte { return in.buf[in.readPos:in.writePos] }

// buffered returns the length of unread.
func (in *connReader) buffered() int { return in.writePos - in.readPos }

// discard consumes n buffered bytes.
func (in *connReader) discard(n int) {
	in.readPos += n
	if in.readPos == in.writePos {
		in.readPos, in.writePos = 0, 0
	}
}

// releaseEmptyBuffer returns the buffer to the pool, unless it contains unread bytes.
func (in *connReader) releaseEmptyBuffer() {
	if in.buf != nil && in.readPos == in.writePos {
		in.pool.put(in.buf)
		in.buf, in.readPos, in.writePos = nil, 0, 0
	}
}

// setReadTimeout sets the read deadline to the given time from now. It keeps the current deadline
// if the difference is small, because setting one is expensive.
func (in *connReader) setReadTimeout(timeout time.Duration) error {
	return in.setReadTimeoutFrom(time.Time{}, timeout)
}

// setReadTimeoutFrom is like setReadTimeout, but the timeout starts at now, so that a caller that
// has just read the clock need not read it again. Zero means the current time.
func (in *connReader) setReadTimeoutFrom(now time.Time, timeout time.Duration) error {
	if timeout <= 0 {
		if in.deadline.IsZero() {
			return nil
		}
		return in.setReadDeadline(time.Time{})
	}
	if now.IsZero() {
		now = time.Now()
	}
	deadline := now.Add(timeout)
	currentIsCloseEnough := !in.deadline.IsZero() && in.deadline.Sub(deadline).Abs() <= timeout/16
	if currentIsCloseEnough {
		return nil
	}
	return in.setReadDeadline(deadline)
}

// setReadDeadline sets the read deadline. It never replaces a deadline used by StopWaiting,
// RequestPark or StopRead to interrupt a read. It returns no errors except ErrStopped and, after
// PauseRead, ErrPaused.
func (in *connReader) setReadDeadline(deadline time.Time) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.stopRead {
		return ErrStopped
	}
	if in.mu.paused {
		return ErrPaused
	}
	waitInterrupted := in.mu.waiting && (in.mu.stopWaiting || in.mu.parkRequested)
	if waitInterrupted {
		return nil
	}
	in.deadline = deadline
	_ = in.nc.SetReadDeadline(deadline) // after an error, the next read fails
	return nil
}

// makeRoom makes space after the unread bytes. It moves them to the front, or into a larger
// buffer. It returns false if maxSize bytes are unread.
func (in *connReader) makeRoom() bool {
	if in.writePos < len(in.buf) {
		return true
	}
	if in.readPos > 0 {
		in.writePos = copy(in.buf, in.buf[in.readPos:in.writePos])
		in.readPos = 0
		return true
	}
	if len(in.buf) >= in.maxSize {
		return false
	}
	size := max(2*len(in.buf), in.initialSize)
	next := in.pool.get(min(size, in.maxSize))
	in.writePos = copy(next, in.buf)
	in.pool.put(in.buf)
	in.buf = next
	return true
}

// fill reads once, and blocks until data arrives. The buffer must have space or be nil.
func (in *connReader) fill() error {
	if in.buf == nil && in.sock == nil {
		return in.fillWithSmallBuffer()
	}
	var tail []byte
	if in.buf != nil {
		tail = in.buf[in.writePos:]
	}
	buf, n, err := in.receive(tail, true)
	in.addReceived(buf, n)
	return err
}

// fillWithSmallBuffer waits with a buffer of a few bytes, so that an idle connection with TLS needs
// no large buffer.
func (in *connReader) fillWithSmallBuffer() error {
	if in.mux != nil {
		if in.mux.AwaitReadable() == nil { // after an error, the following read returns it
			in.buf = in.pool.get(in.initialSize)
			_, n, err := in.receive(in.buf, true)
			in.addReceived(in.buf, n)
			return err
		}
	}
	_, n, err := in.receive(in.smallBuf[:], true)
	if n > 0 {
		in.buf = in.pool.get(in.initialSize)
		in.readPos, in.writePos = 0, copy(in.buf, in.smallBuf[:n])
	}
	return err
}

// readMoreWithSmallBuffer is like readMore, but waits with a few bytes of buffer if it has none.
// After that it reads the rest of the data that TLS has already decrypted.
func (in *connReader) readMoreWithSmallBuffer() error {
	if in.buf != nil || in.sock != nil {
		return in.readMore()
	}
	if err := in.fillWithSmallBuffer(); err != nil {
		return err
	}
	mayHaveDecryptedData := in.mux == nil && in.writePos >= len(in.smallBuf)
	if !mayHaveDecryptedData || in.setReadDeadline(past()) != nil {
		return nil //nolint:nilerr // after an error, the next read fails
	}
	n, _ := in.nc.Read(in.buf[in.writePos:]) // an error occurs again in the next read
	in.writePos += n
	in.received += int64(n)
	_ = in.setReadDeadline(time.Time{}) // after an error, the next read fails
	return nil
}

// tryFill reads once without blocking. The buffer must have space or be nil.
func (in *connReader) tryFill() (bool, error) {
	if in.mayBlock() {
		return false, nil
	}
	if in.sock == nil {
		err := in.fill()
		return err == nil, err
	}
	var tail []byte
	if in.buf != nil {
		tail = in.buf[in.writePos:]
	}
	buf, n, err := in.receive(tail, false)
	in.addReceived(buf, n)
	return n > 0, err
}

// mayBlock reports whether a read with wait set to false could block. A socket never blocks such a
// read, and a multiplexed stream reports whether it would. Any other connection, such as one with
// TLS, may block.
func (in *connReader) mayBlock() bool {
	if in.sock != nil {
		return false
	}
	return in.mux == nil || in.mux.WouldBlock()
}

// addReceived appends the n bytes that receive has read. buf is the buffer that receive has
// borrowed, if the connReader had none.
func (in *connReader) addReceived(buf []byte, n int) {
	if in.buf == nil && n > 0 {
		in.buf, in.readPos, in.writePos = buf, 0, 0
	}
	in.writePos += n
}

// receive reads once into p. With a socket and a nil p, it reads into a buffer from the pool. It
// returns ErrStopped if StopRead has interrupted the read.
func (in *connReader) receive(p []byte, wait bool) ([]byte, int, error) {
	var n int
	var err error
	if in.sock != nil {
		p, n, err = in.sock.receive(p, wait)
	} else {
		n, err = in.nc.Read(p)
		if n > 0 {
			err = nil // the error occurs again in the next read
		}
	}
	in.received += int64(n)
	in.filledBuffer = n > 0 && n == len(p)
	if err == nil || errors.Is(err, io.EOF) {
		return p, n, err
	}
	if !wait && errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return p, n, in.interruptError(err)
}

// interruptError returns ErrStopped or ErrPaused if StopRead or PauseRead has interrupted the read,
// and otherwise err.
func (in *connReader) interruptError(err error) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.mu.stopRead:
		return ErrStopped
	case in.mu.paused && errors.Is(err, os.ErrDeadlineExceeded):
		return ErrPaused
	}
	return err
}

// awaitRequest waits up to the timeout for the first byte of a request; now is the current time, as
// in setReadTimeoutFrom. If no data has arrived, it returns io.EOF after the client has closed its
// side, ErrStopped after StopWaiting, and ErrParkRequested after RequestPark.
func (in *connReader) awaitRequest(now time.Time, timeout time.Duration) error {
	if in.buffered() > 0 {
		return nil
	}
	var err error
	if stopped := in.beginRequestWait(); !stopped {
		if err = in.setReadTimeoutFrom(now, timeout); err == nil {
			err = in.fill()
		}
	}
	stopped, parkRequested := in.endRequestWait()
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if err == nil && !stopped && !parkRequested {
		return nil
	}
	return in.checkAfterWait(stopped, parkRequested, err)
}

// beginRequestWait records that a wait for a request begins. It reports whether StopWaiting was
// called, so that the wait must not begin.
func (in *connReader) beginRequestWait() (stopped bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.waiting = true
	return in.mu.stopWaiting
}

// endRequestWait records that the wait for a request has ended. It reports which of StopWaiting and
// RequestPark was called.
func (in *connReader) endRequestWait() (stopped, parkRequested bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	parkRequested = in.mu.parkRequested
	in.mu.waiting, in.mu.parkRequested = false, false
	return in.mu.stopWaiting, parkRequested
}

// checkAfterWait returns the result of a wait for a request that a deadline ended: the timeout, or
// a past deadline set by StopWaiting or RequestPark. It removes the deadline and checks for data
// once more, because a request may have arrived before the deadline while the process was paused.
// waitErr is the result if none of this applies.
func (in *connReader) checkAfterWait(stopped, parkRequested bool, waitErr error) error {
	if err := in.setReadDeadline(time.Time{}); err != nil {
		return err
	}
	if in.buffered() > 0 {
		return nil
	}
	if parkRequested && !stopped {
		return ErrParkRequested
	}
	if hasData, err := in.tryFillAtEnd(); hasData || err != nil {
		return err
	}
	if stopped {
		return ErrStopped
	}
	return waitErr
}

// tryFillAtEnd is like tryFill, for the end of a wait. If there is no data and
// Options.CloseWriteAfterIdle is set, it also closes the sending side.
func (in *connReader) tryFillAtEnd() (bool, error) {
	if sock := in.sock; sock != nil && in.closeWriteAfterIdle {
		sock.closeWriteIfEmpty = true
		defer func() { sock.closeWriteIfEmpty = false }()
	}
	return in.tryFill()
}

// waitForData waits up to the timeout for data, and reports whether data is available. After the
// timeout it returns false without an error.
func (in *connReader) waitForData(timeout time.Duration) (bool, error) {
	if in.buffered() > 0 {
		return true, nil
	}
	if err := in.setReadTimeout(timeout); err != nil {
		return false, err
	}
	err := in.fill()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// readMore makes space and reads once. It returns errHeaderTooLong if the buffer has its maximum
// size and is full. Only a header can fill it, because a reader of a body consumes the buffered
// data before it reads more.
func (in *connReader) readMore() error {
	if in.buf != nil && !in.makeRoom() {
		return errHeaderTooLong
	}
	return in.fill()
}
