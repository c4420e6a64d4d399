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

// Host is one process on its own machine, from start to end.
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

// listen is Listen without the lock, and with plain errors.
func (h *Host) listen(addr string) (*listener, error) {
	if h.state == dead {
		return nil, net.ErrClosed
	}
	ip, port, err := h.listenAddr(addr)
	if err != nil {
		return nil, err
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

// listenAddr resolves an address to listen on. The result is the address of the host if addr names the
// host or is unspecified. Otherwise it is the address in addr, which must be one of the host.
func (h *Host) listenAddr(addr string) (netip.Addr, uint16, error) {
	name, port, err := splitAddr(addr)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	ip := h.machine.ip
	parsed, parseErr := netip.ParseAddr(name)
	if name == "" || parseErr == nil && parsed.IsUnspecified() {
		return ip, port, nil
	}
	if m, _, err := h.network.resolve(h.machine, addr); err != nil || m != h.machine {
		return netip.Addr{}, 0, errAddrNotAvailable
	}
	if parseErr == nil {
		ip = parsed
	}
	return ip, port, nil
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
