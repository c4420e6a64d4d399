package mux

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// diverted is a connection that can have what is written to it go elsewhere, so that what
// seals it, above, never waits for the socket.
type recordInterceptor interface {
	// Divert has all that is written go to to from now on, and returns what takes it to the
	// socket. No write may be under way.
	Divert(to func(b []byte)) (under io.Writer)
}

// socket is what is below a trunk.
type transport struct {
	raw        syscall.RawConn // nil: there is none
	conn       net.Conn        // what is written to
	direct     io.Writer       // takes to the socket what seal returns
	plaintext  bool            // that is what seal was given
	intercepts bool            // it is what conn has written, not what was written to conn

	encrypting atomic.Bool // what conn writes is what seal was given

	mu       sync.Mutex // who reads may have something to say to the other end's TLS
	records  []byte     // what conn has written
	replies  int        // of it, what seal was not given
	previous []byte     // what seal has returned before; the room of the next one

	pending  []byte // to be sent
	sent     int    // of it
	err      error
	sendFunc func(fd uintptr) bool
}

// socketOf returns what is below a connection.
func newTransport(c net.Conn) *transport {
	tr := &transport{conn: c, direct: c}
	tr.sendFunc = tr.sendToFD
	b := innermostConn(c)
	if sc, ok := b.(syscall.Conn); ok {
		tr.raw, _ = sc.SyscallConn() // without one there is none
	}
	d, ok := c.(interface{ Direct() bool })
	if tr.plaintext = ok && d.Direct() || c == b; tr.plaintext {
		return tr
	}
	if d, ok := b.(recordInterceptor); ok && tr.raw != nil && canTrySend {
		tr.direct, tr.intercepts = d.Divert(tr.intercept), true
	}
	return tr
}

// below returns what is below a connection and all that wraps it.
func innermostConn(c net.Conn) net.Conn {
	for {
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = w.NetConn()
	}
}

// works reports whether send does.
func (tr *transport) canTrySend() bool {
	return canTrySend && tr.raw != nil && (tr.plaintext || tr.intercepts)
}

// seal returns b as it is to be written, until it is called again. It does not wait.
func (tr *transport) encrypt(b []byte) ([]byte, error) {
	if !tr.intercepts {
		return b, nil
	}
	if len(b) > 0 {
		tr.encrypting.Store(true)
		_, err := tr.conn.Write(b)
		tr.encrypting.Store(false)
		if err != nil {
			return nil, err
		}
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.replies = 0
	tr.records, tr.previous = tr.previous[:0], tr.records
	return tr.previous, nil
}

// keep takes what conn writes.
func (tr *transport) intercept(b []byte) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.records = append(tr.records, b...)
	if !tr.encrypting.Load() {
		tr.replies += len(b)
	}
}

// owes reports whether conn has written what seal was not given: an answer to the other end's
// TLS, which asks for new keys.
func (tr *transport) hasReplies() bool { return tr.intercepts && tr.repliesLen() > 0 }

func (tr *transport) repliesLen() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.replies
}

// forget lets go of the room that sealing much has needed.
func (tr *transport) shrink() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if cap(tr.previous) > maxKeptQueue {
		tr.previous = nil
	}
	if cap(tr.records) > maxKeptQueue {
		tr.records = append([]byte(nil), tr.records...)
	}
}

// send sends of what seal has returned what the socket takes, without waiting.
func (tr *transport) trySend(b []byte) (n int, err error) {
	tr.pending, tr.sent, tr.err = b, 0, nil
	err = tr.raw.Write(tr.sendFunc)
	if err == nil {
		err = tr.err
	}
	tr.pending = nil
	return tr.sent, err
}
