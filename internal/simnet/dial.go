package simnet

import (
	"context"
	"net"
	"time"
)

// connectTimeout is how long the system waits for an address that does not respond.
const connectTimeout = 127 * time.Second

// synInterval is the interval between two connection requests to a listener whose backlog is full.
const synInterval = time.Second

// Dial opens a stream to "host:port". host is an address or the name of a host. Dial blocks
// while there is no response, until ctx ends or the system gives up after 127 s. It returns
// ECONNREFUSED if no listener has the port.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	target, port, err := h.network.resolve(h.machine, addr)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	conn, err := h.connect(ctx, target, port)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: tcpAddr(target.ip, port), Err: err}
	}
	return conn, nil
}

// DialTimeout is Dial with a timeout. Zero means none.
func (h *Host) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return h.Dial(ctx, addr)
}

// connect sends connection requests (SYN) until there is a response.
func (h *Host) connect(ctx context.Context, target *machine, port uint16) (net.Conn, error) {
	network := h.network
	deadline := time.Now().Add(connectTimeout)
	// responseAt is when the response to the SYN arrives; zero means that no SYN has been sent.
	var responseAt time.Time
	for {
		// The lock is released, because a context may use the clock of a frozen machine.
		network.mu.Unlock()
		ctxErr, ctxDone := ctx.Err(), ctx.Done()
		network.mu.Lock()
		if h.state == frozen {
			// The calling process is frozen, so even its deadline does not wake it.
			network.await(&h.changed, nil, time.Time{})
			continue
		}
		now := time.Now()
		switch {
		case ctxErr != nil:
			return nil, ctxErr
		case h.state == dead:
			return nil, net.ErrClosed
		case !now.Before(deadline):
			return nil, errTimedOut
		case target.current.state == frozen || !network.canExchange(h.machine, target):
			responseAt = time.Time{}
			network.await(&network.changed, ctxDone, deadline)
			continue
		case responseAt.IsZero():
			responseAt = now.Add(network.roundTrip(h.machine, target))
		}
		if now.Before(responseAt) {
			network.await(&network.changed, ctxDone, responseAt)
			continue
		}
		listener := target.current.listeners[port]
		if listener == nil || network.isReset(h.machine, target) {
			return nil, errRefused
		}
		if len(listener.backlog) < maxBacklog {
			return network.openStream(h, listener), nil
		}
		responseAt = now.Add(synInterval)
	}
}

// openStream creates a stream between the dialer and a listener.
func (n *Net) openStream(dialer *Host, listener *listener) net.Conn {
	local := tcpAddr(dialer.machine.ip, dialer.freePort())
	if listener.host.machine == dialer.machine {
		local.IP = listener.addr.IP
	}
	opened := &stream{}
	forward, reverse := &direction{from: dialer, to: listener.host}, &direction{from: listener.host, to: dialer}
	opened.dialerEnd = &conn{host: dialer, stream: opened, local: local, remote: listener.addr, incoming: reverse, outgoing: forward}
	opened.listenerEnd = &conn{host: listener.host, stream: opened, local: listener.addr, remote: local, incoming: forward, outgoing: reverse}
	forward.writer, forward.reader = opened.dialerEnd, opened.listenerEnd
	reverse.writer, reverse.reader = opened.listenerEnd, opened.dialerEnd
	n.streams[opened] = struct{}{}
	listener.backlog = append(listener.backlog, opened.listenerEnd)
	listener.wake.notifyAll()
	return opened.dialerEnd
}
