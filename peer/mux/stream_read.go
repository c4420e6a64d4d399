package mux

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// deliver takes bytes that have come.
func (st *Stream) receive(p []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.recvCredit -= len(p); st.recvCredit < 0 {
		return fmt.Errorf("%w: %d bytes more on lane %d than it has credit for", errProtocol, -st.recvCredit, st.id)
	}
	if st.peerEnded || st.err != nil || st.closed {
		return nil // behind the end, or nobody wants it
	}
	if st.recv == nil {
		st.recv = newRecvBuffer()
	}
	st.recv.b, st.recvOffset = makeRoom(st.recv.b, st.recvOffset, len(p), st.window)
	st.recv.b = append(st.recv.b, p...)
	st.wakeReaderLocked()
	return nil
}

// end notes that no more bytes come; unread: nor are any taken.
func (st *Stream) handleEnd(unread bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.peerEnded, st.peerStoppedReading = true, st.peerStoppedReading || unread
	st.wakeReaderLocked()
	if unread {
		st.wakeWriterLocked()
	}
	st.notifyPeerEndLocked()
}

// cut breaks the lane as the other end wants it, though it may have said its end.
func (st *Stream) handleReset() {
	st.mu.Lock()
	st.peerEnded = false
	st.mu.Unlock()
	st.fail(errReset)
}

// fail breaks the lane. What has come is read before, also the end.
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

// leaves tells who wants to know that the other end has left. With mu held.
func (st *Stream) notifyPeerEndLocked() {
	if f := st.onPeerEnd; f != nil {
		st.onPeerEnd = nil
		go f()
	}
}

// discard gives back what holds unread bytes. With mu held.
func (st *Stream) discardRecvLocked() {
	if st.recv != nil {
		st.recv.release()
		st.recv, st.recvOffset = nil, 0
	}
}

// wakeReader has the reader look again. With mu held.
func (st *Stream) wakeReaderLocked() {
	if st.readerWaits {
		st.readerWaits = false
		st.readable <- struct{}{} // has room: reading says that it is empty
	}
	if f := st.onReadable; f != nil {
		st.onReadable = nil
		f()
	}
}

// Ready has wake called, once, as soon as Read would return at once, be it for a deadline or
// because the lane has been closed; false: it would now. So nobody has to wait there. Wake is
// called by who brings that about, with the lane locked: it must not wait, nor use the lane.
func (st *Stream) Ready(wake func()) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.recv != nil || st.peerEnded || st.closed || st.err != nil || st.readDeadline.hasExpired() {
		return false
	}
	st.onReadable = wake
	st.readable, st.readDeadline.timer = nil, nil // of who waits, which nobody does now
	st.readDeadline.start(st.readDeadlineExpired)
	return true
}

// wait waits until there is something to read, or nothing to wait for. With mu held,
// which it lets go meanwhile.
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
	back := 0
	if st.consumed += n; st.consumed >= st.window/2 && !st.peerEnded {
		back = st.takeCreditLocked()
		st.recvCredit += back
	}
	st.mu.Unlock()
	if back > 0 {
		st.session.enqueueWindowUpdate(st, back)
	}
	return n, nil
}

// Quiet reports whether there is nothing to read, no end and no error.
func (st *Stream) Quiet() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.recv == nil && !st.peerEnded && !st.closed && st.err == nil
}

// WatchGone calls gone, once and from a goroutine of its own, when the other end has said
// its end or the lane breaks. The function it returns ends that, and reports whether gone
// has not been called and will not be.
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
