package connlimit

import (
	"net"
	"net/http"
	"sync"
)

// UnusedConns tracks the connections that have not sent a request yet. Browsers open such
// connections in advance. http.Server.Shutdown would wait for their first request.
type UnusedConns struct {
	// mu protects the following fields.
	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool // CloseAll was called: close new connections immediately
}

// Track is the ConnState function of an http.Server.
func (u *UnusedConns) Track(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.conns, conn)
	case u.closed:
		_ = conn.Close() // no request is lost
	default:
		if u.conns == nil {
			u.conns = make(map[net.Conn]bool)
		}
		u.conns[conn] = true
	}
}

// CloseAll closes all unused connections, and every later one when it is accepted.
func (u *UnusedConns) CloseAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for c := range u.conns {
		_ = c.Close() // no request is lost
	}
}
