package simnet

import (
	"net"
	"time"

	"github.com/hashicorp/memberlist"
)

// Bounds of a packet socket: beyond them packets are lost, as in a kernel.
const (
	sockBuffer  = 1024
	sockWaiting = 256
)

// sock is one port for packets.
type sock struct {
	h    *Host
	port uint16
	ch   chan *memberlist.Packet
	// waiting holds packets that arrived while the host was frozen.
	waiting []*memberlist.Packet
}

// sendPacket sends b or loses it. Like UDP it does not report a loss.
func (h *Host) sendPacket(port uint16, b []byte, addr string) error {
	n := h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.state == dead {
		return &net.OpError{Op: "write", Net: "udp", Err: net.ErrClosed}
	}
	to, toPort, err := n.find(h.m, addr)
	if err != nil {
		return &net.OpError{Op: "write", Net: "udp", Err: err}
	}
	l := n.link(h.m, to)
	if h.state == frozen || !n.open(h.m, to) || l.lost(n.rng) {
		return nil
	}
	from := net.UDPAddr(*tcpAddr(h.m.ip, port))
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: &from}
	d := l.delay(n.rng)
	if d == 0 {
		n.deliver(to, toPort, p)
		return nil
	}
	time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.open(h.m, to) {
			n.deliver(to, toPort, p)
		}
	})
	return nil
}

func (n *Net) deliver(to *machine, port uint16, p *memberlist.Packet) {
	s := to.cur.socks[port]
	if s == nil {
		return
	}
	if s.h.state == frozen {
		if len(s.waiting) < sockWaiting {
			s.waiting = append(s.waiting, p)
		}
		return
	}
	s.push(p)
}

// push passes p to the reader if there is room.
func (s *sock) push(p *memberlist.Packet) {
	p.Timestamp = time.Now()
	select {
	case s.ch <- p:
	default:
	}
}

func (s *sock) thaw() {
	for _, p := range s.waiting {
		s.push(p)
	}
	s.waiting = nil
}

func (s *sock) close() {
	if s.h.socks[s.port] == s {
		delete(s.h.socks, s.port)
	}
}
