package admin

import (
	"net"
	"net/http"
	"sync"
)

// mute has the connections that have asked nothing yet: what browsers open ahead and
// watchers leave open. A server that stops would wait for their first request.
type mute struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	over  bool // there are to be none any more
}

// follow is for http.Server.ConnState.
func (m *mute) follow(c net.Conn, s http.ConnState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case s != http.StateNew:
		delete(m.conns, c)
	case m.over:
		_ = c.Close() // nobody has asked anything
	default:
		if m.conns == nil {
			m.conns = make(map[net.Conn]bool)
		}
		m.conns[c] = true
	}
}

// close closes them, and those that still come.
func (m *mute) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	for c := range m.conns {
		_ = c.Close() // nobody has asked anything
	}
}
