package mux

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Write implements net.Conn. A returned byte count does not mean that the peer has read these
// bytes: if the session fails, this is unknown.
func (st *Stream) Write(p []byte) (n int, err error) {
	bulk := len(p) > maxFrameData
	for n < len(p) {
		reserved, err := st.reserveCredit(min(len(p)-n, maxFrameData))
		if err != nil {
			return n, err
		}
		queued, err := st.session.enqueueData(st, p[n:n+reserved], bulk)
		if err != nil {
			return n, err
		}
		if queued {
			n += reserved
			continue
		}
		if err := st.waitQueueSpace(reserved); err != nil {
			return n, err
		}
	}
	return n, nil
}

// reserveCredit waits for send credit, and consumes up to want bytes of it.
func (st *Stream) reserveCredit(want int) (int, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		if err := st.writeErrorLocked(); err != nil {
			return 0, err
		}
		if n := min(want, st.sendCredit); n > 0 {
			st.sendCredit -= n
			return n, nil
		}
		st.waitWritableLocked()
	}
}

// waitQueueSpace returns n bytes of credit and waits until the session may have queue space.
func (st *Stream) waitQueueSpace(n int) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sendCredit += n
	if st.spaceSignaled {
		st.spaceSignaled = false
		return nil
	}
	if err := st.writeErrorLocked(); err != nil {
		return err
	}
	st.waitWritableLocked()
	st.spaceSignaled = false
	return nil
}

// writeErrorLocked returns the reason why the stream cannot be written to, or nil if it can.
func (st *Stream) writeErrorLocked() error {
	switch {
	case st.closed || st.writeClosed:
		return net.ErrClosed
	case st.err != nil:
		return st.err
	case st.peerClosedRead:
		return errPeerClosedRead
	case st.writeDeadline.hasExpired():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// waitWritableLocked waits until wakeWriterLocked is called. It releases mu while it waits.
func (st *Stream) waitWritableLocked() {
	if st.writable == nil {
		st.writable = make(chan struct{}, 1)
	}
	st.writerWaiting = true
	st.writeDeadline.startTimer(st.writeDeadlineExpired)
	writable := st.writable
	st.mu.Unlock()
	<-writable
	st.mu.Lock()
}

// signalQueueSpace reports that the session may have queue space. The writer need not wait for it
// yet.
func (st *Stream) signalQueueSpace() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.spaceSignaled = true
	st.wakeWriterLocked()
}

// wakeWriterLocked makes a waiting writer check the state again.
func (st *Stream) wakeWriterLocked() {
	if st.writerWaiting {
		st.writerWaiting = false
		st.writable <- struct{}{} // does not block: writerWaiting implies that it is empty
	}
}

// addSendCredit adds credit that the peer has granted.
func (st *Stream) addSendCredit(n uint32) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	exceedsWindow := n > Window || st.sendCredit+int(n) > Window
	if n == 0 || exceedsWindow {
		return fmt.Errorf("%w: window update of %d bytes on stream %d, which has %d", errProtocol, n, st.id, st.sendCredit)
	}
	st.sendCredit += int(n)
	st.wakeWriterLocked()
	return nil
}

// CloseWrite ends the sending direction of the stream.
func (st *Stream) CloseWrite() error {
	st.mu.Lock()
	// It does not block, so the write deadline does not apply, as with TCP.
	if err := st.writeErrorLocked(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		st.mu.Unlock()
		return err
	}
	st.writeClosed = true
	st.mu.Unlock()
	return st.session.enqueue(frameEndStream, st.id, nil)
}

// SetLinger makes Close reset the stream if sec is 0, as for a TCP socket.
func (st *Stream) SetLinger(sec int) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.resetOnClose = sec == 0
	return nil
}

// Close implements net.Conn. The peer reads what was written, and then the end of the stream.
func (st *Stream) Close() error {
	st.mu.Lock()
	if st.closed {
		st.mu.Unlock()
		return net.ErrClosed
	}
	st.closed = true
	typ := frameClose
	if st.resetOnClose {
		typ = frameReset
	}
	st.discardRecvLocked()
	st.returnWindowLocked()
	st.readDeadline.stopTimer()
	st.writeDeadline.stopTimer()
	st.wakeReaderLocked()
	st.wakeWriterLocked()
	st.notifyPeerEndLocked()
	st.mu.Unlock()
	st.session.closeStream(st, typ)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (st *Stream) SetWriteDeadline(t time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.writeDeadline.set(t, st.writerWaiting, st.writeDeadlineExpired)
	if st.writeDeadline.expired {
		st.wakeWriterLocked()
	}
	return nil
}

// writeDeadlineExpired wakes a waiting writer at its deadline.
func (st *Stream) writeDeadlineExpired() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.writeDeadline.hasExpired() {
		st.wakeWriterLocked()
	}
}
