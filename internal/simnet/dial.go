package simnet

import (
	"context"
	"net"
	"time"
)

// connectTimeout is how long the system waits for an address that does not respond.
const connectTimeout = 127 * time.Second

// Dial opens a stream to "host:port". host is an address or the name of a host. Dial blocks
// while there is no response, until ctx ends or the system gives up after 127 s. It returns
// ECONNREFUSED if no listener has the port.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	m, port, err := h.n.find(h.m, addr)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	c, err := h.connect(ctx, m, port)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: tcpAddr(m.ip, port), Err: err}
	}
	return c, nil
}

// DialTimeout is Dial with a timeout. Zero means none.
func (h *Host) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	ctx := context.Background()
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	return h.Dial(ctx, addr)
}

// connect sends connection requests until there is a response.
func (h *Host) connect(ctx context.Context, m *machine, port uint16) (net.Conn, error) {
	n := h.n
	give := time.Now().Add(connectTimeout)
	// arrive is when the response to the SYN arrives; zero means that none was sent.
	var arrive time.Time
	for {
		// Without the lock: a context may ask for the time of a machine that stands still.
		n.mu.Unlock()
		over, done := ctx.Err(), ctx.Done()
		n.mu.Lock()
		now := time.Now()
		switch {
		case over != nil && h.state != frozen:
			return nil, over
		case h.state == dead:
			return nil, net.ErrClosed
		case h.state == frozen:
			// The caller stands still: not even its deadline wakes it.
			n.await(&h.changed, nil, time.Time{})
			continue
		case !now.Before(give):
			return nil, errTimedOut
		case !n.open(h.m, m) || !n.open(m, h.m) || m.cur.state == frozen:
			arrive = time.Time{}
			n.await(&n.changed, done, give)
			continue
		case arrive.IsZero():
			arrive = now.Add(n.link(h.m, m).segment(n.rng) + n.link(m, h.m).segment(n.rng))
		}
		if now.Before(arrive) {
			n.await(&n.changed, done, arrive)
			continue
		}
		l := m.cur.listeners[port]
		if l == nil || n.forges(h.m, m) {
			return nil, errRefused
		}
		if len(l.queue) < backlog {
			return n.join(h, l), nil
		}
		arrive = now.Add(time.Second)
	}
}

// join makes the stream between h and a listener.
func (n *Net) join(h *Host, l *listener) net.Conn {
	local := tcpAddr(h.m.ip, h.freePort())
	if l.h.m == h.m {
		local.IP = l.addr.IP
	}
	s := &stream{}
	there, back := &half{from: h, to: l.h}, &half{from: l.h, to: h}
	s.a = &conn{h: h, s: s, local: local, remote: l.addr, in: back, out: there}
	s.b = &conn{h: l.h, s: s, local: l.addr, remote: local, in: there, out: back}
	there.writer, there.reader = s.a, s.b
	back.writer, back.reader = s.b, s.a
	n.streams[s] = struct{}{}
	l.queue = append(l.queue, s.b)
	l.wake.fire()
	return s.a
}
