package mux

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// errReset is the error of reads and writes after the peer has reset the stream. errPeerClosedRead
// is the error of writes after the peer has closed the stream. They wrap the errors of TCP, so that
// callers treat a stream like a TCP connection.
var (
	errReset          = fmt.Errorf("mux: stream: %w", syscall.ECONNRESET)
	errPeerClosedRead = fmt.Errorf("mux: stream: %w", syscall.EPIPE)
)

// Stream is a bidirectional stream of a session. At most one goroutine may read and one may write
// at a time. All other methods are safe for concurrent use.
//
// Lock order: Session.mu and Stream.mu are never held together.
type Stream struct {
	session  *Session
	id       uint32
	readable chan struct{} // wakes the waiting reader; nil until a reader waits
	writable chan struct{} // wakes the waiting writer; nil until a writer waits

	// Session.mu protects the following fields.
	localClosed      bool    // this end has closed the stream
	closeBatched     bool    // the close frame is in a batch
	peerClosed       bool    // the peer has closed the stream
	halfClosed       bool    // one of the ends has closed it
	receivedFromPeer bool    // the peer has sent a frame for it
	budget           *Budget // counts the stream; nil means none does any more
	firstBatch       uint64  // batch with the first byte since BeginMessage; zero means none was written
	isBlocked        bool    // it is in Session.blockedStreams
	pendingCredit    int     // credit to announce

	// mu protects the following fields.
	mu sync.Mutex

	// Receiving.
	recv            *recvBuffer // unread bytes; nil means none
	recvOffset      int         // bytes of recv that have been read
	window          int         // bytes that may be in flight, unread, or consumed and not announced
	consumed        int         // bytes that were read and are not yet announced as credit
	recvCredit      int         // bytes that the peer may still send
	peerClosedWrite bool        // the peer sends no more bytes
	readerWaiting   bool
	readDeadline    deadline

	// Sending.
	sendCredit     int  // bytes that this end may still send
	peerClosedRead bool // the peer has closed the stream
	writeClosed    bool // CloseWrite was called
	writerWaiting  bool
	spaceSignaled  bool // queue space was signaled since the writer last waited for it
	writeDeadline  deadline

	// The end of the stream.
	closed       bool   // Close was called
	resetOnClose bool   // Close resets the stream
	err          error  // why the stream has failed; nil means that it has not
	onReadable   func() // called once when Read would not block; nil means not set
	onPeerEnd    func() // called once when the peer ends its direction or the stream fails; nil means not set
}

var _ net.Conn = (*Stream)(nil)

func newStream(session *Session, id uint32, window int) *Stream {
	return &Stream{session: session, id: id, window: window, recvCredit: window, sendCredit: window}
}

// SessionConn returns the connection of the session, which other streams also use.
func (st *Stream) SessionConn() net.Conn { return st.session.conn }

// BeginMessage starts a new message: Unprocessed covers what is written from here on.
func (st *Stream) BeginMessage() {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	st.firstBatch = 0
}

// Unprocessed reports whether the stream failed before the peer read any byte of the current
// message: the peer refused the stream, or no byte of the message was written.
func (st *Stream) Unprocessed() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return errors.Is(st.err, ErrUnprocessed)
}

// Responsive reports whether the session has received something recently, for any stream, so that
// the path works. It is false also while the write queue is long.
func (st *Stream) Responsive() bool { return st.session.readRecently() && st.session.hasQueueSpace() }

// SessionDraining reports whether the session opens no more streams. The stream must not be reused
// then.
func (st *Stream) SessionDraining() bool { return !st.session.CanOpen() }

// Ping calls Session.Ping.
func (st *Stream) Ping() { st.session.Ping() }

// FailSession calls Session.Fail: all streams of the session fail.
func (st *Stream) FailSession(err error) { st.session.Fail(err) }

// RawConn returns the socket of the session, to inspect the network path. nil means there is no
// socket.
func (st *Stream) RawConn() syscall.RawConn { return st.session.transport.socket }

// LocalAddr implements net.Conn.
func (st *Stream) LocalAddr() net.Addr { return st.session.conn.LocalAddr() }

// RemoteAddr implements net.Conn.
func (st *Stream) RemoteAddr() net.Addr { return st.session.conn.RemoteAddr() }

// SetDeadline implements net.Conn.
func (st *Stream) SetDeadline(t time.Time) error {
	_ = st.SetWriteDeadline(t) // never fails
	return st.SetReadDeadline(t)
}

// deadline is the deadline of one direction. Its timer runs only while a goroutine waits, because
// most long-lived streams have no waiting goroutine. Stream.mu protects it.
type deadline struct {
	time    time.Time   // zero means no deadline
	expired bool        // the deadline has passed, as far as is known
	timer   *time.Timer // calls the function of startTimer; nil until a goroutine has waited
}

// set sets the deadline. waiting is set if a goroutine waits now; if so, onExpiry is called at the
// deadline.
func (d *deadline) set(t time.Time, waiting bool, onExpiry func()) {
	d.time = t
	d.expired = !t.IsZero() && time.Until(t) <= 0
	d.stopTimer()
	if waiting && !d.expired {
		d.startTimer(onExpiry)
	}
}

// startTimer makes the timer call onExpiry at the deadline, for a goroutine that is about to wait. If
// the timer exists already, startTimer ignores onExpiry: the timer calls the function of its first start.
func (d *deadline) startTimer(onExpiry func()) {
	if d.time.IsZero() {
		return
	}
	remaining := time.Until(d.time)
	if d.timer == nil {
		d.timer = time.AfterFunc(remaining, onExpiry)
	} else {
		d.timer.Reset(remaining)
	}
}

// restartTimer is startTimer without a function, for a timer that exists or is not needed.
// Otherwise it returns false, and the caller must call startTimer. It saves the allocation of a
// closure.
func (d *deadline) restartTimer() bool {
	if d.time.IsZero() || d.timer != nil {
		d.startTimer(nil)
		return true
	}
	return false
}

// hasExpired reports whether the deadline has passed. A timer that fires does not prove that,
// because the deadline may have been moved since.
func (d *deadline) hasExpired() bool {
	d.expired = d.expired || !d.time.IsZero() && time.Until(d.time) <= 0
	return d.expired
}

// stopTimer stops the timer, because no goroutine waits any more. It keeps the timer for
// restartTimer.
func (d *deadline) stopTimer() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
