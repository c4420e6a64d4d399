package mux

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// receive stores data that the peer has sent.
func (st *Stream) receive(p []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.recvCredit -= len(p)
	if st.recvCredit < 0 {
		return fmt.Errorf("%w: %d bytes beyond the credit of stream %d", errProtocol, -st.recvCredit, st.id)
	}
	if st.peerClosedWrite || st.err != nil || st.closed {
		return nil // the stream has ended, or has no reader any more
	}
	if st.recv == nil {
		st.recv = newRecvBuffer()
	}
	st.recv.data, st.recvOffset = makeRoom(st.recv.data, st.recvOffset, len(p), st.window)
	st.recv.data = append(st.recv.data, p...)
	st.wakeReaderLocked()
	return nil
}

// handleEnd records that the peer has ended its direction. readClosed is set if the peer does not
// read any more either.
func (st *Stream) handleEnd(readClosed bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.peerClosedWrite, st.peerClosedRead = true, st.peerClosedRead || readClosed
	st.wakeReaderLocked()
	if readClosed {
		st.wakeWriterLocked()
	}
	st.notifyPeerEndLocked()
}

// handleReset fails the stream because the peer has reset it. That also applies if the peer had
// ended its direction before.
func (st *Stream) handleReset() {
	st.mu.Lock()
	st.peerClosedWrite = false
	st.mu.Unlock()
	st.fail(errReset)
}

// fail fails the stream with err. Reads first return the data that was received, and the end of the
// stream if the peer has sent it.
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

// notifyPeerEndLocked calls onPeerEnd in another goroutine, once.
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
	if st.readerWaiting {
		st.readerWaiting = false
		st.readable <- struct{}{} // does not block: readerWaiting implies that the channel is empty
	}
	if f := st.onReadable; f != nil {
		st.onReadable = nil
		f()
	}
}

// NotifyReadable arranges one call of wake when Read would not block any more; a deadline or Close
// also counts. If Read would not block now, NotifyReadable returns false. Callers use it instead of
// a goroutine that blocks in Read. wake is called with the stream locked, so it must not block and
// must not use the stream.
func (st *Stream) NotifyReadable(wake func()) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.canReadLocked() || st.readDeadline.hasExpired() {
		return false
	}
	st.onReadable = wake
	st.readable, st.readDeadline.timer = nil, nil // only a blocked reader needs them
	st.readDeadline.startTimer(st.readDeadlineExpired)
	return true
}

// waitReadableLocked waits until Read would not block, and returns the error that Read would
// return. It releases mu while it waits.
func (st *Stream) waitReadableLocked() error {
	for st.recv == nil {
		switch {
		case st.closed:
			return net.ErrClosed
		case st.peerClosedWrite:
			return io.EOF
		case st.err != nil:
			return st.err
		case st.readDeadline.hasExpired():
			return os.ErrDeadlineExceeded
		}
		if st.readable == nil {
			st.readable = make(chan struct{}, 1)
		}
		st.readerWaiting = true
		if !st.readDeadline.restartTimer() {
			st.readDeadline.startTimer(st.readDeadlineExpired)
		}
		readable := st.readable
		st.mu.Unlock()
		<-readable
		st.mu.Lock()
	}
	if st.readDeadline.hasExpired() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// AwaitReadable waits until Read would not block.
func (st *Stream) AwaitReadable() error {
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
	n := copy(p, st.recv.data[st.recvOffset:])
	st.recvOffset += n
	if st.recvOffset == len(st.recv.data) {
		st.discardRecvLocked()
	}
	st.consumed += n
	credit := 0
	if st.consumed >= st.window/2 && !st.peerClosedWrite {
		credit = st.takeCreditLocked()
		st.recvCredit += credit
	}
	st.mu.Unlock()
	if credit > 0 {
		st.session.enqueueWindowUpdate(st, credit)
	}
	return n, nil
}

// WouldBlock reports whether there is nothing to read: no data, no end of the stream and no error.
func (st *Stream) WouldBlock() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return !st.canReadLocked()
}

// canReadLocked reports whether there is something to read: data, the end of the stream or an error.
func (st *Stream) canReadLocked() bool {
	return st.recv != nil || st.peerClosedWrite || st.closed || st.err != nil
}

// WatchDisconnect calls gone once, in another goroutine, when the peer has ended its direction or
// the stream has failed. stop cancels the watch. It returns true if gone was not called and will
// not be called.
func (st *Stream) WatchDisconnect(gone func()) (stop func() bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.onPeerEnd = gone
	if st.peerClosedWrite || st.closed || st.err != nil {
		st.notifyPeerEndLocked()
	}
	return func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		notCalled := st.onPeerEnd != nil
		st.onPeerEnd = nil
		return notCalled
	}
}

// SetReadDeadline implements net.Conn.
func (st *Stream) SetReadDeadline(t time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.readDeadline.set(t, st.readerWaiting || st.onReadable != nil, st.readDeadlineExpired)
	if st.readDeadline.expired {
		st.wakeReaderLocked()
	}
	return nil
}

// readDeadlineExpired wakes a waiting reader at its deadline.
func (st *Stream) readDeadlineExpired() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.readDeadline.hasExpired() {
		st.wakeReaderLocked()
	}
}
