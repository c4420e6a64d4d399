package h1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// connReader is the reading half of a Conn. buf[r:w] contains data that was read and not consumed.
// One goroutine owns it; other goroutines may use only the fields of mu.
type connReader struct {
	nc   net.Conn
	sock *socket   // nil means that nc.Read is used
	mux  MuxStream // nc as a multiplexed stream; nil means that it is none
	pool *Buffers
	size int // size of the first buffer
	max  int // size up to which the buffer grows for a header
	body time.Duration
	// endIdle is the value of Options.EndIdle.
	endIdle bool
	// rate and patience are the values of Timeouts.
	rate     int64
	patience time.Duration

	buf  []byte
	r, w int
	few  [16]byte // buffer of fillFirst
	// filledBuffer means that the last read filled the whole buffer, so that the socket may contain
	// more data.
	filledBuffer bool
	received     int64
	until        time.Time // present read deadline; zero means none

	mu struct {
		sync.Mutex
		waiting       bool // a read waits for the first byte of a request
		stopIdle      bool
		parkRequested bool // RequestPark was called, and the wait has not returned yet
		stopRead      bool
		paused        bool
		wake          func() // wakes a parked reader; nil means that none is parked
		leave         func() // ends the registration with the Watcher of Park
	}
}

// past returns a deadline that lies in the past on any clock.
func past() time.Time { return time.Unix(1, 0) }

func (in *connReader) unread() []byte { return in.buf[in.r:in.w] }

func (in *connReader) buffered() int { return in.w - in.r }

func (in *connReader) discard(n int) {
	in.r += n
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
}

// release returns the buffer to the pool, unless it contains unread bytes.
func (in *connReader) release() {
	if in.buf != nil && in.r == in.w {
		in.pool.put(in.buf)
		in.buf, in.r, in.w = nil, 0, 0
	}
}

// arm sets the read deadline to d from now. It keeps the present deadline if the difference is
// small.
func (in *connReader) arm(d time.Duration) error { return in.armFrom(time.Time{}, d) }

// armFrom is arm with the present time; zero means to read the clock.
func (in *connReader) armFrom(now time.Time, d time.Duration) error {
	if d <= 0 {
		if in.until.IsZero() {
			return nil
		}
		return in.setDeadline(time.Time{})
	}
	if now.IsZero() {
		now = time.Now()
	}
	t := now.Add(d)
	if !in.until.IsZero() && in.until.Sub(t).Abs() <= d/16 {
		return nil
	}
	return in.setDeadline(t)
}

// setDeadline sets the read deadline. It never replaces a deadline with which StopIdle, RequestPark
// or StopRead interrupts a read. It returns no errors except ErrStopped and, after PauseRead,
// ErrPaused.
func (in *connReader) setDeadline(t time.Time) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.stopRead {
		return ErrStopped
	}
	if in.mu.paused {
		return ErrPaused
	}
	if in.mu.waiting && (in.mu.stopIdle || in.mu.parkRequested) {
		return nil
	}
	in.until = t
	_ = in.nc.SetReadDeadline(t) // after an error, the next read fails
	return nil
}

// room makes space behind the unread bytes. It moves them to the front, or into a larger buffer. It
// returns false if max bytes are unread.
func (in *connReader) room() bool {
	if in.w < len(in.buf) {
		return true
	}
	if in.r > 0 {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
		return true
	}
	if len(in.buf) >= in.max {
		return false
	}
	next := in.pool.get(min(max(2*len(in.buf), in.size), in.max))
	in.w = copy(next, in.buf)
	in.pool.put(in.buf)
	in.buf = next
	return true
}

// fill reads once, and blocks until data arrives. The buffer must have space or be nil.
func (in *connReader) fill() error {
	if in.buf == nil && in.sock == nil {
		return in.fillFirst()
	}
	var tail []byte
	if in.buf != nil {
		tail = in.buf[in.w:]
	}
	buf, n, err := in.receive(tail, true)
	in.filled(buf, n)
	return err
}

// fillFirst waits with a buffer of a few bytes, so that an idle connection with TLS needs no large
// buffer.
func (in *connReader) fillFirst() error {
	if in.mux != nil {
		if in.mux.Await() == nil { // after an error, the following read returns it
			in.buf = in.pool.get(in.size)
			_, n, err := in.receive(in.buf, true)
			in.filled(in.buf, n)
			return err
		}
	}
	_, n, err := in.receive(in.few[:], true)
	if n > 0 {
		in.buf = in.pool.get(in.size)
		in.r, in.w = 0, copy(in.buf, in.few[:n])
	}
	return err
}

// moreLean is like more, but waits with a few bytes of buffer if it has none. After that it reads
// the rest of the data that TLS has already decrypted.
func (in *connReader) moreLean() error {
	if in.buf != nil || in.sock != nil {
		return in.more()
	}
	if err := in.fillFirst(); err != nil || in.mux != nil || in.w < len(in.few) || in.setDeadline(past()) != nil {
		return err
	}
	n, _ := in.nc.Read(in.buf[in.w:]) // an error occurs again in the next read
	in.w += n
	in.received += int64(n)
	_ = in.setDeadline(time.Time{}) // after an error, the next read fails
	return nil
}

// tryFill reads once without blocking. The buffer must have space or be nil.
func (in *connReader) tryFill() (bool, error) {
	if in.sock == nil {
		if in.mux == nil || in.mux.Quiet() {
			return false, nil
		}
		err := in.fill()
		return err == nil, err
	}
	var tail []byte
	if in.buf != nil {
		tail = in.buf[in.w:]
	}
	buf, n, err := in.receive(tail, false)
	in.filled(buf, n)
	return n > 0, err
}

func (in *connReader) filled(buf []byte, n int) {
	if in.buf == nil && n > 0 {
		in.buf, in.r, in.w = buf, 0, 0
	}
	in.w += n
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
	return p, n, in.stopped(err)
}

// stopped returns ErrStopped or ErrPaused if StopRead or PauseRead has interrupted the read, and
// otherwise err.
func (in *connReader) stopped(err error) error {
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

// awaitRequest waits up to d for the first byte of a request; now is the present time, as in
// armFrom. If no data has arrived, it returns io.EOF after the client has closed its side,
// ErrStopped after StopIdle, and ErrParkRequested after RequestPark.
func (in *connReader) awaitRequest(now time.Time, d time.Duration) error {
	if in.buffered() > 0 {
		return nil
	}
	in.mu.Lock()
	in.mu.waiting = true
	stopped := in.mu.stopIdle
	in.mu.Unlock()
	var err error
	if !stopped {
		if err = in.armFrom(now, d); err == nil {
			err = in.fill()
		}
	}
	in.mu.Lock()
	parkRequested := in.mu.parkRequested
	in.mu.waiting, in.mu.parkRequested = false, false
	stopped = in.mu.stopIdle
	in.mu.Unlock()
	if err == nil && !stopped && !parkRequested || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	// The time has passed, or StopIdle or RequestPark has set a deadline in the past. Remove the
	// deadline and check once more: after a pause of the process, a request may have arrived before
	// the deadline expired.
	if broken := in.setDeadline(time.Time{}); broken != nil {
		return broken
	}
	if in.buffered() > 0 {
		return nil
	}
	if parkRequested && !stopped {
		return ErrParkRequested
	}
	if some, broken := in.lookLast(); some || broken != nil {
		return broken
	}
	if stopped {
		return ErrStopped
	}
	return err
}

// lookLast is tryFill at the end of a wait. If there is no data and Options.EndIdle is set, it also
// closes the sending side.
func (in *connReader) lookLast() (bool, error) {
	if s := in.sock; s != nil && in.endIdle {
		s.endIfEmpty = true
		defer func() { s.endIfEmpty = false }()
	}
	return in.tryFill()
}

// await waits up to d for data, and reports whether data is available.
func (in *connReader) await(d time.Duration) (bool, error) {
	if in.buffered() > 0 {
		return true, nil
	}
	if err := in.arm(d); err != nil {
		return false, err
	}
	err := in.fill()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// more makes space and reads once. If a header fills the buffer up to the size limit, it returns an
// error. Readers of bodies never have a full buffer.
func (in *connReader) more() error {
	if in.buf != nil && !in.room() {
		return errLongHeader
	}
	return in.fill()
}
