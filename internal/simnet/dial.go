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
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	m, port, err := h.network.resolve(h.machine, addr)
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
func (h *Host) connect(ctx context.Context, target *machine, port uint16) (net.Conn, error) {
	n := h.network
	deadline := time.Now().Add(connectTimeout)
	// arrive is when the response to the SYN arrives; zero means that none was sent.
	var responseAt time.Time
	for {
		// Without the lock: a context may ask for the time of a machine that stands still.
		n.mu.Unlock()
		ctxErr, ctxDone := ctx.Err(), ctx.Done()
		n.mu.Lock()
		now := time.Now()
		switch {
		case ctxErr != nil && h.state != frozen:
			return nil, ctxErr
		case h.state == dead:
			return nil, net.ErrClosed
		case h.state == frozen:
			// The caller stands still: not even its deadline wakes it.
			n.await(&h.changed, nil, time.Time{})
			continue
		case !now.Before(deadline):
			return nil, errTimedOut
		case !n.isRouteOpen(h.machine, target) || !n.isRouteOpen(target, h.machine) || target.current.state == frozen:
			responseAt = time.Time{}
			n.await(&n.changed, ctxDone, deadline)
			continue
		case responseAt.IsZero():
			responseAt = now.Add(n.link(h.machine, target).segmentDelay(n.rng) + n.link(target, h.machine).segmentDelay(n.rng))
		}
		if now.Before(responseAt) {
			n.await(&n.changed, ctxDone, responseAt)
			continue
		}
		l := target.current.listeners[port]
		if l == nil || n.isForged(h.machine, target) {
			return nil, errRefused
		}
		if len(l.backlog) < maxBacklog {
			return n.openStream(h, l), nil
		}
		responseAt = now.Add(time.Second)
	}
}

// openStream makes the stream between h and a listener.
func (n *Net) openStream(h *Host, l *listener) net.Conn {
	local := tcpAddr(h.machine.ip, h.freePort())
	if l.host.machine == h.machine {
		local.IP = l.addr.IP
	}
	s := &stream{}
	there, back := &direction{from: h, to: l.host}, &direction{from: l.host, to: h}
	s.a = &conn{host: h, stream: s, local: local, remote: l.addr, in: back, out: there}
	s.b = &conn{host: l.host, stream: s, local: l.addr, remote: local, in: there, out: back}
	there.writer, there.reader = s.a, s.b
	back.writer, back.reader = s.b, s.a
	n.streams[s] = struct{}{}
	l.backlog = append(l.backlog, s.b)
	l.wake.notifyAll()
	return s.a
}
