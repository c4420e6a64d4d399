package mux

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Write implements net.Conn. What it has taken is as good as sent: of a trunk that breaks
// nobody knows what the other end has read.
func (st *Stream) Write(p []byte) (n int, err error) {
	bulk := len(p) > maxFrameData
	for n < len(p) {
		room, err := st.reserveCredit(min(len(p)-n, maxFrameData))
		if err != nil {
			return n, err
		}
		taken, err := st.session.enqueueData(st, p[n:n+room], bulk)
		if err != nil {
			return n, err
		}
		if taken {
			n += room
			continue
		}
		if err := st.waitQueueSpace(room); err != nil {
			return n, err
		}
	}
	return n, nil
}

// reserve waits for credit, and takes of it what is wanted, or less.
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

// crowded gives credit back and waits until the trunk may have room for it.
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

// mayWrite says why nothing may be written. With mu held.
func (st *Stream) writeErrorLocked() error {
	switch {
	case st.closed || st.writeClosed:
		return net.ErrClosed
	case st.err != nil:
		return st.err
	case st.peerStoppedReading:
		return errPipe
	case st.writeDeadline.hasExpired():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// awaitRoom waits until the writer is to look again. With mu held, which it lets go
// meanwhile.
func (st *Stream) waitWritableLocked() {
	if st.writable == nil {
		st.writable = make(chan struct{}, 1)
	}
	st.writerWaits = true
	st.writeDeadline.start(st.writeDeadlineExpired)
	more := st.writable
	st.mu.Unlock()
	<-more
	st.mu.Lock()
}

// room tells that the trunk may have some. It may come before the writer waits for it.
func (st *Stream) signalQueueSpace() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.spaceSignaled = true
	st.wakeWriterLocked()
}

// wakeWriter has the writer look again. With mu held.
func (st *Stream) wakeWriterLocked() {
	if st.writerWaits {
		st.writerWaits = false
		st.writable <- struct{}{} // has room: writing says that it is empty
	}
}

// earn takes credit that has come.
func (st *Stream) addSendCredit(n uint32) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if n == 0 || n > Window || st.sendCredit+int(n) > Window {
		return fmt.Errorf("%w: credit of %d bytes on lane %d, which has %d", errProtocol, n, st.id, st.sendCredit)
	}
	st.sendCredit += int(n)
	st.wakeWriterLocked()
	return nil
}

// CloseWrite says that no more bytes come from this end.
func (st *Stream) CloseWrite() error {
	st.mu.Lock()
	// It waits for nothing, so that the deadline of a write is none of its own, as with TCP.
	if err := st.writeErrorLocked(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		st.mu.Unlock()
		return err
	}
	st.writeClosed = true
	st.mu.Unlock()
	return st.session.enqueue(frameEndStream, st.id, nil)
}

// SetLinger makes Close cut the lane, if sec is 0, as it does with a socket.
func (st *Stream) SetLinger(sec int) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.resetOnClose = sec == 0
	return nil
}

// Close implements net.Conn. The other end reads what was written, and then the end.
func (st *Stream) Close() error {
	st.mu.Lock()
	if st.closed {
		st.mu.Unlock()
		return net.ErrClosed
	}
	st.closed = true
	k := frameClose
	if st.resetOnClose {
		k = frameReset
	}
	st.discardRecvLocked()
	st.returnWindowLocked()
	st.readDeadline.stop()
	st.writeDeadline.stop()
	st.wakeReaderLocked()
	st.wakeWriterLocked()
	st.notifyPeerEndLocked()
	st.mu.Unlock()
	st.session.closeStream(st, k)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (st *Stream) SetWriteDeadline(t time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.writeDeadline.set(t, st.writerWaits, st.writeDeadlineExpired)
	if st.writeDeadline.expired {
		st.wakeWriterLocked()
	}
	return nil
}

func (st *Stream) writeDeadlineExpired() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.writeDeadline.hasExpired() {
		st.wakeWriterLocked()
	}
}
