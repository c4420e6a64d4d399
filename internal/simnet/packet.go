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

// packetSocket is one port for packets.
type packetSocket struct {
	host    *Host
	port    uint16
	packets chan *memberlist.Packet
	// arrivedFrozen holds packets that arrived while the host was frozen.
	arrivedFrozen []*memberlist.Packet
}

// sendPacket sends payload, or loses it. Like UDP it does not report a loss.
func (h *Host) sendPacket(port uint16, payload []byte, addr string) error {
	network := h.network
	network.mu.Lock()
	defer network.mu.Unlock()
	if h.state == dead {
		return &net.OpError{Op: "write", Net: "udp", Err: net.ErrClosed}
	}
	destination, toPort, err := network.resolve(h.machine, addr)
	if err != nil {
		return &net.OpError{Op: "write", Net: "udp", Err: err}
	}
	link := network.link(h.machine, destination)
	if h.state == frozen || !network.isRouteOpen(h.machine, destination) || link.isPacketLost(network.rng) {
		return nil
	}
	from := net.UDPAddr(*tcpAddr(h.machine.ip, port))
	packet := &memberlist.Packet{Buf: append([]byte(nil), payload...), From: &from}
	delay := link.packetDelay(network.rng)
	if delay == 0 {
		network.deliver(destination, toPort, packet)
		return nil
	}
	time.AfterFunc(delay, func() {
		network.mu.Lock()
		defer network.mu.Unlock()
		if network.isRouteOpen(h.machine, destination) {
			network.deliver(destination, toPort, packet)
		}
	})
	return nil
}

// deliver passes a packet to the socket of the port, or loses it if there is none. n.mu must be held.
func (n *Net) deliver(to *machine, port uint16, packet *memberlist.Packet) {
	socket := to.current.packetSockets[port]
	if socket == nil {
		return
	}
	if socket.host.state == frozen {
		if len(socket.arrivedFrozen) < maxFrozenPackets {
			socket.arrivedFrozen = append(socket.arrivedFrozen, packet)
		}
		return
	}
	socket.deliver(packet)
}

// deliver passes p to the reader if there is room.
func (s *packetSocket) deliver(p *memberlist.Packet) {
	p.Timestamp = time.Now()
	select {
	case s.packets <- p:
	default:
	}
}

// thaw delivers the packets that arrived while the host was frozen.
func (s *packetSocket) thaw() {
	for _, p := range s.arrivedFrozen {
		s.deliver(p)
	}
	s.arrivedFrozen = nil
}

// close removes the socket from its host.
func (s *packetSocket) close() {
	if s.host.packetSockets[s.port] == s {
		delete(s.host.packetSockets, s.port)
	}
}
