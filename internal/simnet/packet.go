package simnet

import (
	"net"
	"time"

	"github.com/hashicorp/memberlist"
)

// Bounds of a packet socket: beyond them packets are lost, as in a kernel.
const (
	maxReceivedPackets = 1024
	maxFrozenPackets   = 256
)

// sock is one port for packets.
type sock struct {
	host    *Host
	port    uint16
	packets chan *memberlist.Packet
	// arrivedFrozen holds packets that arrived while the host was frozen.
	arrivedFrozen []*memberlist.Packet
}

// sendPacket sends b or loses it. Like UDP it does not report a loss.
func (h *Host) sendPacket(port uint16, b []byte, addr string) error {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.state == dead {
		return &net.OpError{Op: "write", Net: "udp", Err: net.ErrClosed}
	}
	to, toPort, err := n.resolve(h.machine, addr)
	if err != nil {
		return &net.OpError{Op: "write", Net: "udp", Err: err}
	}
	l := n.link(h.machine, to)
	if h.state == frozen || !n.isRouteOpen(h.machine, to) || l.isPacketLost(n.rng) {
		return nil
	}
	from := net.UDPAddr(*tcpAddr(h.machine.ip, port))
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: &from}
	d := l.packetDelay(n.rng)
	if d == 0 {
		n.deliver(to, toPort, p)
		return nil
	}
	time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.isRouteOpen(h.machine, to) {
			n.deliver(to, toPort, p)
		}
	})
	return nil
}

func (n *Net) deliver(to *machine, port uint16, p *memberlist.Packet) {
	s := to.current.socks[port]
	if s == nil {
		return
	}
	if s.host.state == frozen {
		if len(s.arrivedFrozen) < maxFrozenPackets {
			s.arrivedFrozen = append(s.arrivedFrozen, p)
		}
		return
	}
	s.deliver(p)
}

// deliver passes p to the reader if there is room.
func (s *sock) deliver(p *memberlist.Packet) {
	p.Timestamp = time.Now()
	select {
	case s.packets <- p:
	default:
	}
}

func (s *sock) thaw() {
	for _, p := range s.arrivedFrozen {
		s.deliver(p)
	}
	s.arrivedFrozen = nil
}

func (s *sock) close() {
	if s.host.socks[s.port] == s {
		delete(s.host.socks, s.port)
	}
}
