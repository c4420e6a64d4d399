package simnet

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// state is the state of a host's process.
type state uint8

const (
	running state = iota + 1
	frozen
	// dead covers crashed and vanished. It is final for the handle.
	dead
)

func (s state) String() string {
	switch s {
	case running:
		return "running"
	case frozen:
		return "frozen"
	case dead:
		return "dead"
	default:
		return fmt.Sprintf("state(%d)", uint8(s))
	}
}

// Host is one process on a machine of its own, from its start to its end.
type Host struct {
	network *Net
	machine *machine
	state   state

	listeners     map[uint16]*listener
	packetSockets map[uint16]*packetSocket
	// changed fires when state changes.
	changed notifier
}

func newHost(network *Net, machine *machine) *Host {
	return &Host{
		network: network, machine: machine, state: running,
		listeners:     make(map[uint16]*listener),
		packetSockets: make(map[uint16]*packetSocket),
	}
}

// Name returns the name given to Net.Host.
func (h *Host) Name() string { return h.machine.name }

// IP returns the address of the host.
func (h *Host) IP() netip.Addr { return h.machine.ip }

// Addr returns "ip:port".
func (h *Host) Addr(port int) string {
	return net.JoinHostPort(h.machine.ip.String(), strconv.Itoa(port))
}

// Listen listens for streams. The host part of addr may be empty, the address of the host,
// its name or a loopback address; all mean the same port. Port 0 selects a free one.
func (h *Host) Listen(addr string) (net.Listener, error) {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	l, err := h.listen(addr)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	return l, nil
}

func (h *Host) listen(addr string) (*listener, error) {
	if h.state == dead {
		return nil, net.ErrClosed
	}
	name, port, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	ip := h.machine.ip
	if name != "" {
		m, _, err := h.network.resolve(h.machine, addr)
		if parsed, parseErr := netip.ParseAddr(name); parseErr == nil {
			ip = parsed
			if parsed.IsUnspecified() {
				m, err, ip = h.machine, nil, h.machine.ip
			}
		}
		if err != nil || m != h.machine {
			return nil, errAddrNotAvailable
		}
	}
	if port == 0 {
		port = h.freePort()
	}
	if h.listeners[port] != nil {
		return nil, errAddrInUse
	}
	l := &listener{host: h, addr: tcpAddr(ip, port)}
	h.listeners[port] = l
	return l, nil
}

// freePort returns an unused ephemeral port, to listen on or to dial from.
func (h *Host) freePort() uint16 {
	for {
		h.machine.lastPort++
		if h.machine.lastPort < 32768 {
			h.machine.lastPort = 32768
		}
		if h.listeners[h.machine.lastPort] == nil && h.packetSockets[h.machine.lastPort] == nil {
			return h.machine.lastPort
		}
	}
}
