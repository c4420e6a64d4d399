//go:build linux

package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// reopenableListener is the listener of the app. It can close its port for some time while the
// process and its connections stay. The address remains the same.
type reopenableListener struct {
	addr net.Addr

	// mu protects the following fields.
	mu     sync.Mutex
	ln     net.Listener          // closed while the port is closed
	closed bool                  // Close was called
	opened chan struct{}         // closed when the port opens again; nil while it is open
	conns  map[net.Conn]struct{} // open connections of the server
}

func newListener(ln net.Listener) *reopenableListener {
	return &reopenableListener{addr: ln.Addr(), ln: ln, conns: make(map[net.Conn]struct{})}
}

// Accept returns the next connection. It blocks while the port is closed.
func (l *reopenableListener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		ln, reopened := l.ln, l.opened
		l.mu.Unlock()
		if reopened == nil {
			conn, err := ln.Accept()
			l.mu.Lock()
			closedForNow := l.opened != nil && !l.closed
			l.mu.Unlock()
			if err == nil || !closedForNow {
				return conn, err
			}
			continue
		}
		<-reopened
	}
}

// Close closes the listener permanently.
func (l *reopenableListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.ln.Close()
}

// Addr returns the address, also while the port is closed.
func (l *reopenableListener) Addr() net.Addr { return l.addr }

// track is the ConnState function of the server. It maintains the set of open connections.
func (l *reopenableListener) track(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state { //nolint:exhaustive // the other states do not change the set of open connections
	case http.StateNew:
		l.conns[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(l.conns, conn)
	}
}

const (
	// closeConnsDelay leaves time for the response to the control request before its connection is closed.
	closeConnsDelay = 50 * time.Millisecond
	// reopenInterval is the pause between two attempts to listen on a port that another socket uses.
	reopenInterval = 10 * time.Millisecond
)

// closeFor closes the port for a duration, and returns immediately. If all is set, it also closes the
// open connections. It does nothing while the port is closed.
func (l *reopenableListener) closeFor(duration time.Duration, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened != nil || l.closed {
		return
	}
	l.opened = make(chan struct{})
	_ = l.ln.Close()
	if all {
		time.AfterFunc(closeConnsDelay, l.closeConns)
	}
	time.AfterFunc(duration, l.reopen)
}

func (l *reopenableListener) closeConns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
}

// reopen listens on the address again. It retries while another socket uses the port.
func (l *reopenableListener) reopen() {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", l.addr.String())
	if err != nil {
		time.AfterFunc(reopenInterval, l.reopen)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ln = ln
	close(l.opened)
	l.opened = nil
}
