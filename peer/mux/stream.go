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
type Lane struct {
	t    *Trunk
	id   uint32
	some chan struct{} // has one when the reader is to look again; nil: none has waited yet
	more chan struct{} // the same for the writer

	// The trunk's mu guards these.
	shut   bool    // this end has closed it
	said   bool    // the writer has taken that up
	away   bool    // the other end has closed it
	left   bool    // one of them has
	spoken bool    // the other end has said something of it
	counts *Budget // it counts there; nil: nowhere any more
	begins uint64  // the load by which the first byte goes that was said since Begin; zero: none has been said
	crowds bool    // it is in the trunk's crowd
	back   int     // credit to be written

	mu      sync.Mutex
	in      *store // what has come and not been read; nil: nothing
	taken   int    // of it, from its start
	window  int    // what may be on its way to the reader, in, or eaten
	eaten   int    // read, and not given back as credit
	allowed int    // what the other end may still send
	credit  int    // what this end may still send
	reading bool   // the reader waits
	writing bool   // the writer waits
	roomy   bool   // the trunk has told of room since the writer asked
	ended   bool   // no more bytes come
	unread  bool   // the other end takes no more
	halved  bool   // this end has said its end
	closed  bool
	hard    bool // Close is a reset
	err     error
	reads   limit
	writes  limit
	ready   func() // called once the reader would not wait; nil: nobody wants to know
	gone    func() // called once the other end has left; nil: nobody wants to know
}

var _ net.Conn = (*Lane)(nil)

func newLane(t *Trunk, id uint32, window int) *Lane {
	return &Lane{t: t, id: id, window: window, allowed: window, credit: window}
}

// Carrier returns the connection below the trunk, which others use, too.
func (l *Lane) Carrier() net.Conn { return l.t.conn }

// Begin begins a message: Untaken is of what is written from here on.
func (l *Lane) Begin() {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.begins = 0
}

// Untaken reports whether the lane broke before the other end read anything of its message: it
// takes no lane, or nothing of it was written.
func (l *Lane) Untaken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Is(l.err, ErrNotTaken)
}

// Fresh reports whether something has come from the other end just now, whichever lane it
// was for: there was a path. False also while much waits to be written.
func (l *Lane) Fresh() bool { return l.t.fresh() && l.t.roomy() }

// Over reports whether the trunk opens no more lanes: this one is not to be used again.
func (l *Lane) Over() bool { return !l.t.Works() }

// Ping is the trunk's.
func (l *Lane) Ping() { l.t.Ping() }

// Fail is the trunk's: all its lanes break.
func (l *Lane) Fail(err error) { l.t.Fail(err) }

// Path gives access to the trunk's socket, for looking at the path; nil without one.
func (l *Lane) Path() syscall.RawConn { return l.t.sock.raw }

// LocalAddr implements net.Conn.
func (l *Lane) LocalAddr() net.Addr { return l.t.conn.LocalAddr() }

// RemoteAddr implements net.Conn.
func (l *Lane) RemoteAddr() net.Addr { return l.t.conn.RemoteAddr() }

// SetDeadline implements net.Conn.
func (l *Lane) SetDeadline(t time.Time) error {
	_ = l.SetWriteDeadline(t) // never fails
	return l.SetReadDeadline(t)
}

// limit is a deadline of one direction. It has a timer only while somebody waits: a lane that
// stays is mostly one where nobody does. The lane's mu guards it.
type limit struct {
	until time.Time // zero: none
	over  bool
	timer *time.Timer // calls what late is asked by; nil: none was needed yet
}

// set sets the deadline; waits: somebody waits now.
func (m *limit) set(t time.Time, waits bool, late func()) {
	m.until, m.over = t, !t.IsZero() && time.Until(t) <= 0
	if m.stop(); waits && !m.over {
		m.arm(late)
	}
}

// arm has late called at the deadline, for who is about to wait. Where there is a timer already
// it is not needed: to make it anew for each wait would be garbage.
func (m *limit) arm(late func()) {
	switch left := time.Until(m.until); {
	case m.until.IsZero():
	case m.timer == nil:
		m.timer = time.AfterFunc(left, late)
	default:
		m.timer.Reset(left)
	}
}

// armed is arm, if that needs no late; false: it does.
func (m *limit) armed() bool {
	if m.until.IsZero() || m.timer != nil {
		m.arm(nil)
		return true
	}
	return false
}

// late reports whether the deadline is over, which the timer's end alone does not say: it
// may have been set anew meanwhile.
func (m *limit) late() bool {
	m.over = m.over || !m.until.IsZero() && time.Until(m.until) <= 0
	return m.over
}

func (m *limit) stop() {
	if m.timer != nil {
		m.timer.Stop()
	}
}
