package admin

import (
	"net"
	"net/http"
	"sync"
)

// mute has the connections that have asked nothing yet: what browsers open ahead and
// watchers leave open. A server that stops would wait for their first request.
type unusedConns struct {
	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool // there are to be none any more
}

// follow is for http.Server.ConnState.
func (u *unusedConns) track(c net.Conn, s http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case s != http.StateNew:
		delete(u.conns, c)
	case u.closed:
		_ = c.Close() // nobody has asked anything
	default:
		if u.conns == nil {
			u.conns = make(map[net.Conn]bool)
		}
		u.conns[c] = true
	}
}

// close closes them, and those that still come.
func (u *unusedConns) closeAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for c := range u.conns {
		_ = c.Close() // nobody has asked anything
	}
}
