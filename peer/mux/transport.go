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
type diverted interface {
	// Divert has all that is written go to to from now on, and returns what takes it to the
	// socket. No write may be under way.
	Divert(to func(b []byte)) (under io.Writer)
}

// socket is what is below a trunk.
type socket struct {
	raw   syscall.RawConn // nil: there is none
	conn  net.Conn        // what is written to
	under io.Writer       // takes to the socket what seal returns
	plain bool            // that is what seal was given
	seals bool            // it is what conn has written, not what was written to conn

	sealing atomic.Bool // what conn writes is what seal was given

	mu     sync.Mutex // who reads may have something to say to the other end's TLS
	sealed []byte     // what conn has written
	beside int        // of it, what seal was not given
	sent   []byte     // what seal has returned before; the room of the next one

	b     []byte // to be sent
	n     int    // of it
	err   error
	sends func(fd uintptr) bool
}

// socketOf returns what is below a connection.
func socketOf(c net.Conn) *socket {
	s := &socket{conn: c, under: c}
	s.sends = s.sendTo
	b := below(c)
	if sc, ok := b.(syscall.Conn); ok {
		s.raw, _ = sc.SyscallConn() // without one there is none
	}
	d, ok := c.(interface{ Direct() bool })
	if s.plain = ok && d.Direct() || c == b; s.plain {
		return s
	}
	if d, ok := b.(diverted); ok && s.raw != nil && canSend {
		s.under, s.seals = d.Divert(s.keep), true
	}
	return s
}

// below returns what is below a connection and all that wraps it.
func below(c net.Conn) net.Conn {
	for {
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = w.NetConn()
	}
}

// works reports whether send does.
func (s *socket) works() bool { return canSend && s.raw != nil && (s.plain || s.seals) }

// seal returns b as it is to be written, until it is called again. It does not wait.
func (s *socket) seal(b []byte) ([]byte, error) {
	if !s.seals {
		return b, nil
	}
	if len(b) > 0 {
		s.sealing.Store(true)
		_, err := s.conn.Write(b)
		s.sealing.Store(false)
		if err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beside = 0
	s.sealed, s.sent = s.sent[:0], s.sealed
	return s.sent, nil
}

// keep takes what conn writes.
func (s *socket) keep(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = append(s.sealed, b...)
	if !s.sealing.Load() {
		s.beside += len(b)
	}
}

// owes reports whether conn has written what seal was not given: an answer to the other end's
// TLS, which asks for new keys.
func (s *socket) owes() bool { return s.seals && s.besides() > 0 }

func (s *socket) besides() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beside
}

// forget lets go of the room that sealing much has needed.
func (s *socket) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(s.sent) > keptQueue {
		s.sent = nil
	}
	if cap(s.sealed) > keptQueue {
		s.sealed = append([]byte(nil), s.sealed...)
	}
}

// send sends of what seal has returned what the socket takes, without waiting.
func (s *socket) send(b []byte) (n int, err error) {
	s.b, s.n, s.err = b, 0, nil
	err = s.raw.Write(s.sends)
	if err == nil {
		err = s.err
	}
	s.b = nil
	return s.n, err
}
