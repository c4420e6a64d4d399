package listener

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"shardway/internal/rawio"
)

// Acceptor accepts the connections of a listener. For connections that have already arrived, it
// bypasses package net, which saves a tenth of the time (rawio.Conn). The listener is used only to
// wait for further connections. Only one goroutine may use an Acceptor.
type Acceptor struct {
	ln      net.Listener
	backlog []net.Conn // connections that drain has accepted in advance

	raw   syscall.RawConn              // nil means that the listener accepts all connections
	adopt func(conn net.Conn) net.Conn // what the listener returns for an accepted connection
	step  func(fd uintptr)             // bound method acceptRaw
	conn  net.Conn
}

// New returns the Acceptor of a listener. The connections of a TCP listener, and of a listener with
// an Adopt method, are accepted directly. Other listeners accept all connections themselves, because
// they may return any type of connection.
func New(ln net.Listener) *Acceptor {
	a := &Acceptor{ln: ln, adopt: func(conn net.Conn) net.Conn { return conn }}
	if _, tcp := ln.Addr().(*net.TCPAddr); !tcp {
		return a
	}
	switch l := ln.(type) {
	case *net.TCPListener:
	case interface{ Adopt(conn net.Conn) net.Conn }:
		a.adopt = l.Adopt
	default:
		return a
	}
	raw := rawOf(ln)
	if raw == nil {
		return a
	}
	var inherited error
	if err := raw.Control(func(fd uintptr) { inherited = rawio.SetInheritedOptions(fd) }); err == nil && inherited == nil {
		a.raw, a.step = raw, a.acceptRaw
	}
	return a
}

// Accept accepts a connection. After the listener was stopped, it first returns all connections that
// the kernel has already accepted, because closing the listener would reset them. After that it
// returns an error. stopped reports whether Stop was called.
func (a *Acceptor) Accept(stopped func() bool) (net.Conn, error) {
	if !stopped() {
		if conn := a.take(); conn != nil {
			return conn, nil
		}
		conn, err := a.ln.Accept()
		if err == nil {
			conn = a.own(conn)
		}
		if err == nil || !stopped() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
	}
	a.backlog = append(a.backlog, drain(a.ln)...)
	if n := len(a.backlog) - 1; n >= 0 {
		conn := a.backlog[n]
		a.backlog = a.backlog[:n]
		return conn, nil
	}
	return nil, net.ErrClosed
}

// Stop makes a pending call of Accept return. It closes the listener only if the listener supports no
// deadline: then connections in its backlog are reset.
func Stop(ln net.Listener) {
	d, ok := ln.(interface{ SetDeadline(t time.Time) error })
	if !ok || d.SetDeadline(time.Now()) != nil {
		_ = ln.Close()
	}
}

// rawOf returns the socket of a listener, or nil if it has none.
func rawOf(ln net.Listener) syscall.RawConn {
	sc, ok := ln.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// take returns a connection that has already arrived, or nil if there is none.
func (a *Acceptor) take() net.Conn {
	if a.raw == nil {
		return nil
	}
	a.conn = nil
	if a.raw.Control(a.step) != nil || a.conn == nil {
		return nil // the listener reports the error
	}
	return a.adopt(a.conn)
}

// own removes a connection that the listener has accepted from the runtime's poller, so that it is
// in the same state as a connection that take has returned.
func (a *Acceptor) own(conn net.Conn) net.Conn {
	if a.raw == nil {
		return conn
	}
	return rawio.Adopt(conn)
}

func (a *Acceptor) acceptRaw(fd uintptr) { a.conn = rawio.Accept(fd) }
