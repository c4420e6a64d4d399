package peer

import (
	"context"
	"net"
	"time"
)

// dialTCP is the default of Options.Dial. setTCPOptions makes the settings that dialed and accepted
// connections share.
func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// setTCPOptions sets the TCP options for a kind. It ignores other connections. It also ignores errors: a
// socket that accepts no options is dead, and the next read or write returns a better error.
func (p *Port) setTCPOptions(conn net.Conn, kind Kind) {
	if wrapper, ok := conn.(*lowLatencyConn); ok {
		conn = wrapper.TCPConn
	}
	tcpConn, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcpConn.SetNoDelay(true)
	// Idle streams to a host that has vanished fail after the first probe that stays unanswered for
	// the user timeout: within 15 s, streams with requests within 60 s.
	probes := net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}
	userTimeout := p.options.UserTimeout
	if kind.forwards() {
		// The stream is silent while a request waits for its response. Callers that read the probe
		// state from the kernel detect a dead path within a second.
		probes.Idle, probes.Interval = time.Second, time.Second
		userTimeout = p.options.ForwardTimeout
	}
	_ = tcpConn.SetKeepAliveConfig(probes)
	if userTimeout > 0 {
		setUserTimeout(tcpConn, userTimeout)
	}
}
