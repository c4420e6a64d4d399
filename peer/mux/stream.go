package mux

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// errReset is the error of a reader whose peer has reset the stream, and errPipe of a writer whose
// peer has closed it.
var (
	errReset = fmt.Errorf("mux: stream: %w", syscall.ECONNRESET)
	errPipe  = fmt.Errorf("mux: stream: %w", syscall.EPIPE)
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
	localClosed   bool    // this end has closed the stream
	closeBatched  bool    // the close frame is in a batch
	peerClosed    bool    // the peer has closed the stream
	halfClosed    bool    // one of the ends has closed it
	heardFromPeer bool    // the peer has sent a frame for it
	budget        *Budget // counts the stream; nil means none does any more
	firstBatch    uint64  // batch with the first byte since BeginMessage; zero means none was written
	blocked       bool    // it is in Session.blocked
	pendingCredit int     // credit to announce

	// mu protects the following fields.
	mu sync.Mutex

	// Receiving.
	recv         *recvBuffer // unread bytes; nil means none
	recvOffset   int         // bytes of recv that have been read
	window       int         // bytes that may be in flight, unread, or consumed and not announced
	consumed     int         // bytes that were read and are not yet announced as credit
	recvCredit   int         // bytes that the peer may still send
	peerEnded    bool        // the peer sends no more bytes
	readerWaits  bool
	readDeadline deadline

	// Sending.
	sendCredit         int  // bytes that this end may still send
	peerStoppedReading bool // the peer has closed the stream
	writeClosed        bool // CloseWrite was called
	writerWaits        bool
	spaceSignaled      bool // queue space was signaled since the writer last waited for it
	writeDeadline      deadline

	closed       bool
	resetOnClose bool // Close resets the stream
	err          error
	onReadable   func() // called once when Read would not block; nil means not set
	onPeerEnd    func() // called once when the peer ends its direction or the stream fails; nil means not set
}

var _ net.Conn = (*Stream)(nil)

func newStream(s *Session, id uint32, window int) *Stream {
	return &Stream{session: s, id: id, window: window, recvCredit: window, sendCredit: window}
}

// SessionConn returns the connection of the session, which other streams use, too.
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

// Path returns the socket of the session, to inspect the network path. nil means there is no
// socket.
func (st *Stream) Path() syscall.RawConn { return st.session.transport.raw }

// LocalAddr implements net.Conn.
func (st *Stream) LocalAddr() net.Addr { return st.session.conn.LocalAddr() }

// RemoteAddr implements net.Conn.
func (st *Stream) RemoteAddr() net.Addr { return st.session.conn.RemoteAddr() }

// SetDeadline implements net.Conn.
func (st *Stream) SetDeadline(t time.Time) error {
	_ = st.SetWriteDeadline(t) // never fails
	return st.SetReadDeadline(t)
}

// deadline is the deadline of one direction. It has a timer only while a goroutine waits, because
// most long-lived streams have none that does. Stream.mu protects it.
type deadline struct {
	at      time.Time // zero means no deadline
	expired bool
	timer   *time.Timer // calls the function of start; nil until one was needed
}

// set sets the deadline. waits means that a goroutine waits now.
func (d *deadline) set(t time.Time, waits bool, late func()) {
	d.at, d.expired = t, !t.IsZero() && time.Until(t) <= 0
	if d.stop(); waits && !d.expired {
		d.start(late)
	}
}

// start makes the timer call late at the deadline, for a goroutine that is about to wait. late is
// not used if there is a timer already: a new closure for each wait would be garbage.
func (d *deadline) start(late func()) {
	switch left := time.Until(d.at); {
	case d.at.IsZero():
	case d.timer == nil:
		d.timer = time.AfterFunc(left, late)
	default:
		d.timer.Reset(left)
	}
}

// startExisting is start without a function. It returns false if start needs one.
func (d *deadline) startExisting() bool {
	if d.at.IsZero() || d.timer != nil {
		d.start(nil)
		return true
	}
	return false
}

// hasExpired reports whether the deadline has passed. A timer that fires does not prove that,
// because the deadline may have been moved since.
func (d *deadline) hasExpired() bool {
	d.expired = d.expired || !d.at.IsZero() && time.Until(d.at) <= 0
	return d.expired
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
