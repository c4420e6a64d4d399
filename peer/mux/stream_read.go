package mux

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// receive stores bytes that the peer has sent.
func (st *Stream) receive(p []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.recvCredit -= len(p); st.recvCredit < 0 {
		return fmt.Errorf("%w: %d bytes beyond the credit of stream %d", errProtocol, -st.recvCredit, st.id)
	}
	if st.peerEnded || st.err != nil || st.closed {
		return nil // after the end, or no reader is left
	}
	if st.recv == nil {
		st.recv = newRecvBuffer()
	}
	st.recv.b, st.recvOffset = makeRoom(st.recv.b, st.recvOffset, len(p), st.window)
	st.recv.b = append(st.recv.b, p...)
	st.wakeReaderLocked()
	return nil
}

// handleEnd records that the peer sends no more bytes. closed means that it also reads none.
func (st *Stream) handleEnd(closed bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.peerEnded, st.peerStoppedReading = true, st.peerStoppedReading || closed
	st.wakeReaderLocked()
	if closed {
		st.wakeWriterLocked()
	}
	st.notifyPeerEndLocked()
}

// handleReset fails the stream because the peer has reset it, even if it had ended its direction
// before.
func (st *Stream) handleReset() {
	st.mu.Lock()
	st.peerEnded = false
	st.mu.Unlock()
	st.fail(errReset)
}

// fail fails the stream. Reads first return the bytes that were received, and the end if the peer
// has sent it.
func (st *Stream) fail(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err != nil {
		return
	}
	st.err = err
	st.wakeReaderLocked()
	st.wakeWriterLocked()
	st.notifyPeerEndLocked()
}

// notifyPeerEndLocked calls onPeerEnd, once.
func (st *Stream) notifyPeerEndLocked() {
	if f := st.onPeerEnd; f != nil {
		st.onPeerEnd = nil
		go f()
	}
}

// discardRecvLocked returns the receive buffer to the pool.
func (st *Stream) discardRecvLocked() {
	if st.recv != nil {
		st.recv.release()
		st.recv, st.recvOffset = nil, 0
	}
}

// wakeReaderLocked makes a waiting reader check the state again.
func (st *Stream) wakeReaderLocked() {
	if st.readerWaits {
		st.readerWaits = false
		st.readable <- struct{}{} // does not block: readerWaits implies that it is empty
	}
	if f := st.onReadable; f != nil {
		st.onReadable = nil
		f()
	}
}

// Ready arranges for one call of wake as soon as Read would return at once, also because of a
// deadline or Close. It returns false if Read would return at once now. It replaces a goroutine
// that blocks in Read. wake is called with the stream locked, so it must not block and must not
// use the stream.
func (st *Stream) Ready(wake func()) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.recv != nil || st.peerEnded || st.closed || st.err != nil || st.readDeadline.hasExpired() {
		return false
	}
	st.onReadable = wake
	st.readable, st.readDeadline.timer = nil, nil // only a blocked reader needs them
	st.readDeadline.start(st.readDeadlineExpired)
	return true
}

// waitReadableLocked waits until Read returns at once, and returns the error that it would return.
// It releases mu while it waits.
func (st *Stream) waitReadableLocked() error {
	for st.recv == nil {
		switch {
		case st.closed:
			return net.ErrClosed
		case st.peerEnded:
			return io.EOF
		case st.err != nil:
			return st.err
		case st.readDeadline.hasExpired():
			return os.ErrDeadlineExceeded
		}
		if st.readable == nil {
			st.readable = make(chan struct{}, 1)
		}
		st.readerWaits = true
		if !st.readDeadline.startExisting() {
			st.readDeadline.start(st.readDeadlineExpired)
		}
		some := st.readable
		st.mu.Unlock()
		<-some
		st.mu.Lock()
	}
	if st.readDeadline.hasExpired() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Await waits until Read returns at once.
func (st *Stream) Await() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.waitReadableLocked()
}

// Read implements net.Conn.
func (st *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	st.mu.Lock()
	if err := st.waitReadableLocked(); err != nil {
		st.mu.Unlock()
		return 0, err
	}
	n := copy(p, st.recv.b[st.recvOffset:])
	if st.recvOffset += n; st.recvOffset == len(st.recv.b) {
		st.discardRecvLocked()
	}
	credit := 0
	if st.consumed += n; st.consumed >= st.window/2 && !st.peerEnded {
		credit = st.takeCreditLocked()
		st.recvCredit += credit
	}
	st.mu.Unlock()
	if credit > 0 {
		st.session.enqueueWindowUpdate(st, credit)
	}
	return n, nil
}

// Quiet reports whether there is nothing to read: no data, no end and no error.
func (st *Stream) Quiet() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.recv == nil && !st.peerEnded && !st.closed && st.err == nil
}

// WatchGone calls gone, once and in a goroutine of its own, when the peer has ended its direction
// or the stream has failed. stop cancels that, and reports whether gone was not called and will
// not be.
func (st *Stream) WatchGone(gone func()) (stop func() bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.onPeerEnd = gone
	if st.peerEnded || st.closed || st.err != nil {
		st.notifyPeerEndLocked()
	}
	return func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		before := st.onPeerEnd != nil
		st.onPeerEnd = nil
		return before
	}
}

// SetReadDeadline implements net.Conn.
func (st *Stream) SetReadDeadline(t time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.readDeadline.set(t, st.readerWaits || st.onReadable != nil, st.readDeadlineExpired)
	if st.readDeadline.expired {
		st.wakeReaderLocked()
	}
	return nil
}

func (st *Stream) readDeadlineExpired() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.readDeadline.hasExpired() {
		st.wakeReaderLocked()
	}
}
