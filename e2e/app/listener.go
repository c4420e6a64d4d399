//go:build linux

package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// port is the listener of an app that can close its port for a while and go on: the process,
// what it has cached and its connections stay.
type reopenableListener struct {
	addr net.Addr

	mu       sync.Mutex
	ln       net.Listener
	closed    bool
	reopened chan struct{} // closed when the port is open again; nil while it is open
	conns    map[net.Conn]struct{}
}

func newListener(ln net.Listener) *reopenableListener {
	return &reopenableListener{addr: ln.Addr(), ln: ln, conns: make(map[net.Conn]struct{})}
}

// Accept waits while the port is closed.
func (l *reopenableListener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		ln, reopened := l.ln, l.reopened
		l.mu.Unlock()
		if reopened == nil {
			c, err := ln.Accept()
			l.mu.Lock()
			again := l.reopened != nil && !l.closed
			l.mu.Unlock()
			if err == nil || !again {
				return c, err
			}
			continue
		}
		<-reopened
	}
}

// Close ends the listener for good.
func (l *reopenableListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.ln.Close()
}

// Addr is the address also while the port is closed.
func (l *reopenableListener) Addr() net.Addr { return l.addr }

// track follows the connections of the server.
func (l *reopenableListener) track(c net.Conn, s http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s { //nolint:exhaustive // the others change nothing
	case http.StateNew:
		l.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(l.conns, c)
	}
}

// closeFor closes the port for d, and with all the open connections, too. It returns at once.
func (l *reopenableListener) closeFor(d time.Duration, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reopened != nil || l.closed {
		return
	}
	l.reopened = make(chan struct{})
	_ = l.ln.Close()
	if all {
		time.AfterFunc(50*time.Millisecond, l.closeConns) // behind the response to this request
	}
	time.AfterFunc(d, l.reopen)
}

func (l *reopenableListener) closeConns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
}

func (l *reopenableListener) reopen() {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", l.addr.String())
	if err != nil {
		time.AfterFunc(10*time.Millisecond, l.reopen) // it is taken for a moment
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ln = ln
	close(l.reopened)
	l.reopened = nil
}
