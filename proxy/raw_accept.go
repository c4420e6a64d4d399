package proxy

import (
	"net"
	"syscall"

	"shardway/internal/rawio"
)

// rawAcceptor is where connections wait to be accepted: the socket of a listener. What is there
// already is taken without package net, which costs a tenth less (rawio.Conn); the listener
// waits for what is to come.
type rawAcceptor struct {
	raw   syscall.RawConn              // nil: the listener takes all
	adopt func(conn net.Conn) net.Conn // what the listener makes of a connection
	step  func(fd uintptr)             // p.look, bound once
	conn  net.Conn
}

// newRawAcceptor returns the porch of a TCP listener, or of one that says what it makes of its
// connections. Any other, which may make anything, takes all itself.
func newRawAcceptor(ln net.Listener) *rawAcceptor {
	p := &rawAcceptor{adopt: func(conn net.Conn) net.Conn { return conn }}
	if _, tcp := ln.Addr().(*net.TCPAddr); !tcp {
		return p
	}
	switch l := ln.(type) {
	case *net.TCPListener:
	case interface{ Adopt(conn net.Conn) net.Conn }:
		p.adopt = l.Adopt
	default:
		return p
	}
	raw := rawOf(ln)
	if raw == nil {
		return p
	}
	var inherited error
	if err := raw.Control(func(fd uintptr) { inherited = rawio.Inherit(fd) }); err == nil && inherited == nil {
		p.raw, p.step = raw, p.look
	}
	return p
}

// rawOf returns a listener's socket; nil: it has none.
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

// take returns a connection that waits; nil: none does.
func (p *rawAcceptor) take() net.Conn {
	if p.raw == nil {
		return nil
	}
	p.conn = nil
	if p.raw.Control(p.step) != nil || p.conn == nil {
		return nil // the listener says why
	}
	return p.adopt(p.conn)
}

// own has the runtime's poller forget a connection that the listener has accepted, as of those
// that were taken.
func (p *rawAcceptor) own(conn net.Conn) net.Conn {
	if p.raw == nil {
		return conn
	}
	return rawio.Adopt(conn)
}

func (p *rawAcceptor) look(fd uintptr) { p.conn = rawio.Accept(fd) }
