package proxy

import (
	"net"
	"testing"

	"shardway/proxy/h1"
)

// closing is a connection that tells when it is closed.
type closing struct {
	net.Conn
	closed func()
}

func (c closing) Close() error {
	c.closed()
	return c.Conn.Close()
}

// A close may take its time, over TLS above all. It was done while nobody else
// could get a connection or give one back.
func TestPoolClosesOutsideItsLock(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	p := &pool{clock: new(coarse), max: 1}
	closed := false
	c := closing{Conn: here, closed: func() {
		closed = true
		if !p.mu.TryLock() {
			t.Error("closed under the pool's lock")
			return
		}
		p.mu.Unlock()
	}}
	p.mu.open, p.mu.idle = 1, []*link{{Conn: h1.NewConn(c, h1.Options{}), pool: p}}
	// It cannot be looked at, so a request that must not be sent twice needs another.
	if l, dial := p.take(true); l != nil || !dial {
		t.Errorf("take = %v, %v, want a place to dial for", l, dial)
	}
	if p.mu.open != 1 || len(p.mu.idle) != 0 || !closed {
		t.Errorf("%d open, %d idle, closed %v; want 1, 0, true", p.mu.open, len(p.mu.idle), closed)
	}
}
