package mux

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// errReset is what the reader of a lane meets that the other end has cut, and errPipe who
// writes to one that it has closed.
var (
	errReset = fmt.Errorf("trunk: lane: %w", syscall.ECONNRESET)
	errPipe  = fmt.Errorf("trunk: lane: %w", syscall.EPIPE)
)

// Lane is one stream. One goroutine reads at a time and one writes; any may do the rest.
type Stream struct {
	session  *Session
	id       uint32
	readable chan struct{} // has one when the reader is to look again; nil: none has waited yet
	writable chan struct{} // the same for the writer

	// The trunk's mu guards these.
	localClosed   bool    // this end has closed it
	closeBatched  bool    // the writer has taken that up
	peerClosed    bool    // the other end has closed it
	halfClosed    bool    // one of them has
	heardFromPeer bool    // the other end has said something of it
	budget        *Budget // it counts there; nil: nowhere any more
	firstBatch    uint64  // the load by which the first byte goes that was said since Begin; zero: none has been said
	blocked       bool    // it is in the trunk's crowd
	pendingCredit int     // credit to be written

	mu                 sync.Mutex
	recv               *recvBuffer // what has come and not been read; nil: nothing
	recvOffset         int         // of it, from its start
	window             int         // what may be on its way to the reader, in, or eaten
	consumed           int         // read, and not given back as credit
	recvCredit         int         // what the other end may still send
	sendCredit         int         // what this end may still send
	readerWaits        bool        // the reader waits
	writerWaits        bool        // the writer waits
	spaceSignaled      bool        // the trunk has told of room since the writer asked
	peerEnded          bool        // no more bytes come
	peerStoppedReading bool        // the other end takes no more
	writeClosed        bool        // this end has said its end
	closed             bool
	resetOnClose       bool // Close is a reset
	err                error
	readDeadline       deadline
	writeDeadline      deadline
	onReadable         func() // called once the reader would not wait; nil: nobody wants to know
	onPeerEnd          func() // called once the other end has left; nil: nobody wants to know
}

var _ net.Conn = (*Stream)(nil)

func newStream(s *Session, id uint32, window int) *Stream {
	return &Stream{session: s, id: id, window: window, recvCredit: window, sendCredit: window}
}

// Carrier returns the connection below the trunk, which others use, too.
func (st *Stream) SessionConn() net.Conn { return st.session.conn }

// Begin begins a message: Untaken is of what is written from here on.
func (st *Stream) BeginMessage() {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	st.firstBatch = 0
}

// Untaken reports whether the lane broke before the other end read anything of its message: it
// takes no lane, or nothing of it was written.
func (st *Stream) Unprocessed() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return errors.Is(st.err, ErrUnprocessed)
}

// Fresh reports whether something has come from the other end just now, whichever lane it
// was for: there was a path. False also while much waits to be written.
func (st *Stream) Responsive() bool { return st.session.heardRecently() && st.session.hasQueueSpace() }

// Over reports whether the trunk opens no more lanes: this one is not to be used again.
func (st *Stream) SessionDraining() bool { return !st.session.CanOpen() }

// Ping is the trunk's.
func (st *Stream) Ping() { st.session.Ping() }

// Fail is the trunk's: all its lanes break.
func (st *Stream) FailSession(err error) { st.session.Fail(err) }

// Path gives access to the trunk's socket, for looking at the path; nil without one.
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

// limit is a deadline of one direction. It has a timer only while somebody waits: a lane that
// stays is mostly one where nobody does. The lane's mu guards it.
type deadline struct {
	at      time.Time // zero: none
	expired bool
	timer   *time.Timer // calls what late is asked by; nil: none was needed yet
}

// set sets the deadline; waits: somebody waits now.
func (d *deadline) set(t time.Time, waits bool, late func()) {
	d.at, d.expired = t, !t.IsZero() && time.Until(t) <= 0
	if d.stop(); waits && !d.expired {
		d.start(late)
	}
}

// arm has late called at the deadline, for who is about to wait. Where there is a timer already
// it is not needed: to make it anew for each wait would be garbage.
func (d *deadline) start(late func()) {
	switch left := time.Until(d.at); {
	case d.at.IsZero():
	case d.timer == nil:
		d.timer = time.AfterFunc(left, late)
	default:
		d.timer.Reset(left)
	}
}

// armed is arm, if that needs no late; false: it does.
func (d *deadline) startExisting() bool {
	if d.at.IsZero() || d.timer != nil {
		d.start(nil)
		return true
	}
	return false
}

// late reports whether the deadline is over, which the timer's end alone does not say: it
// may have been set anew meanwhile.
func (d *deadline) hasExpired() bool {
	d.expired = d.expired || !d.at.IsZero() && time.Until(d.at) <= 0
	return d.expired
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
