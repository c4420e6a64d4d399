package listener

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"shardway/internal/rawio"
)

// Acceptor accepts the connections of a listener. It accepts connections that have already arrived
// without package net (see rawio.Conn), which saves a tenth of the time, and uses the listener only
// to wait for further connections. Only one goroutine may use an Acceptor.
type Acceptor struct {
	ln      net.Listener
	backlog []net.Conn // connections that drain has accepted in advance

	rawListener  syscall.RawConn              // nil means that the listener accepts all connections
	adopt        func(conn net.Conn) net.Conn // wraps an accepted connection as the listener would
	acceptStep   func(fd uintptr)             // bound method acceptRaw
	acceptedConn net.Conn
}

// New returns an Acceptor for a listener. The connections of a TCP listener, and of a listener with
// an Adopt method, are accepted directly. Other listeners accept all connections themselves, because
// they may return any type of connection.
func New(ln net.Listener) *Acceptor {
	a := &Acceptor{ln: ln, adopt: func(conn net.Conn) net.Conn { return conn }}
	if _, isTCP := ln.Addr().(*net.TCPAddr); !isTCP {
		return a
	}
	switch l := ln.(type) {
	case *net.TCPListener:
	case interface{ Adopt(conn net.Conn) net.Conn }:
		a.adopt = l.Adopt
	default:
		return a
	}
	raw := rawListenerConn(ln)
	if raw == nil {
		return a
	}
	var optionErr error
	if err := raw.Control(func(fd uintptr) { optionErr = rawio.SetInheritedOptions(fd) }); err == nil && optionErr == nil {
		a.rawListener, a.acceptStep = raw, a.acceptRaw
	}
	return a
}

// Accept returns the next connection. After Stop, it first returns all connections that the kernel
// has already accepted, because closing the listener would reset them, and then net.ErrClosed.
// stopped reports whether Stop was called.
func (a *Acceptor) Accept(stopped func() bool) (net.Conn, error) {
	if !stopped() {
		if conn := a.acceptArrived(); conn != nil {
			return conn, nil
		}
		conn, err := a.ln.Accept()
		if err == nil {
			conn = a.takeFromPoller(conn)
		}
		if err == nil || !stopped() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
	}
	a.backlog = append(a.backlog, drain(a.ln)...)
	if last := len(a.backlog) - 1; last >= 0 {
		conn := a.backlog[last]
		a.backlog = a.backlog[:last]
		return conn, nil
	}
	return nil, net.ErrClosed
}

// Stop makes a pending call of Accept return, by setting a deadline in the past. It closes the
// listener only if the listener does not support deadlines; connections in its backlog are then
// reset.
func Stop(ln net.Listener) {
	stoppable, ok := ln.(interface{ SetDeadline(t time.Time) error })
	if !ok || stoppable.SetDeadline(time.Now()) != nil {
		_ = ln.Close()
	}
}

// rawListenerConn returns the raw connection of a listener's socket, or nil if the listener has no
// socket.
func rawListenerConn(ln net.Listener) syscall.RawConn {
	socket, ok := ln.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// acceptArrived accepts a connection that is already in the backlog. It returns nil if there is
// none, or if connections cannot be accepted directly.
func (a *Acceptor) acceptArrived() net.Conn {
	if a.rawListener == nil {
		return nil
	}
	a.acceptedConn = nil
	if a.rawListener.Control(a.acceptStep) != nil || a.acceptedConn == nil {
		return nil // the listener reports the error
	}
	return a.adopt(a.acceptedConn)
}

// takeFromPoller removes a connection that the listener accepted from the runtime's poller. It is then in the
// same state as a connection that acceptArrived has returned.
func (a *Acceptor) takeFromPoller(conn net.Conn) net.Conn {
	if a.rawListener == nil {
		return conn
	}
	return rawio.Adopt(conn)
}

// acceptRaw accepts a connection from the listening socket fd, and stores it in acceptedConn, because
// a callback of syscall.RawConn cannot return a value.
func (a *Acceptor) acceptRaw(fd uintptr) { a.acceptedConn = rawio.Accept(fd) }
