package peer

import (
	"context"
	"net"
	"time"
)

// dialTCP is the zero value of Options.Dial. The settings common to dialed and
// accepted connections are made in tune.
func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// tune sets what a stream of the kind wants of TCP. Connections of other types
// are left alone. Errors are not: a socket that takes no options is dead, and
// the next read or write says so better.
func (p *Port) tune(c net.Conn, k Kind) {
	if w, ok := c.(*lowLatencyConn); ok {
		c = w.TCPConn
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	_ = t.SetNoDelay(true)
	// Idle streams of a host that vanished are found after the first probe
	// that is unanswered for as long as the user timeout: 15 s, Forward 60 s.
	probes := net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}
	d := p.o.UserTimeout
	if k.forwards() {
		// A request waits here for its answer in silence: whether its path still
		// is one shows in a second, to those who ask the kernel for the probes.
		probes.Idle, probes.Interval = time.Second, time.Second
		d = p.o.ForwardTimeout
	}
	_ = t.SetKeepAliveConfig(probes)
	if d > 0 {
		setUserTimeout(t, d)
	}
}
