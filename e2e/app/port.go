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
type port struct {
	addr net.Addr

	mu       sync.Mutex
	ln       net.Listener
	ended    bool
	reopened chan struct{} // closed when the port is open again; nil while it is open
	conns    map[net.Conn]struct{}
}

func newPort(ln net.Listener) *port {
	return &port{addr: ln.Addr(), ln: ln, conns: make(map[net.Conn]struct{})}
}

// Accept waits while the port is closed.
func (p *port) Accept() (net.Conn, error) {
	for {
		p.mu.Lock()
		ln, reopened := p.ln, p.reopened
		p.mu.Unlock()
		if reopened == nil {
			c, err := ln.Accept()
			p.mu.Lock()
			again := p.reopened != nil && !p.ended
			p.mu.Unlock()
			if err == nil || !again {
				return c, err
			}
			continue
		}
		<-reopened
	}
}

// Close ends the listener for good.
func (p *port) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	return p.ln.Close()
}

// Addr is the address also while the port is closed.
func (p *port) Addr() net.Addr { return p.addr }

// track follows the connections of the server.
func (p *port) track(c net.Conn, s http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s { //nolint:exhaustive // the others change nothing
	case http.StateNew:
		p.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, c)
	}
}

// closeFor closes the port for d, and with all the open connections, too. It returns at once.
func (p *port) closeFor(d time.Duration, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reopened != nil || p.ended {
		return
	}
	p.reopened = make(chan struct{})
	_ = p.ln.Close()
	if all {
		time.AfterFunc(50*time.Millisecond, p.closeConns) // behind the response to this request
	}
	time.AfterFunc(d, p.open)
}

func (p *port) closeConns() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *port) open() {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", p.addr.String())
	if err != nil {
		time.AfterFunc(10*time.Millisecond, p.open) // it is taken for a moment
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ln = ln
	close(p.reopened)
	p.reopened = nil
}
