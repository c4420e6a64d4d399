package simnet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Config describes a Net. The zero value has no delay and no loss.
type Config struct {
	// Seed initializes the random draws for loss and jitter. Two runs with the same seed
	// can still differ in the order of goroutines.
	Seed uint64
	// Link applies between hosts without a SetLink. A host has no delay or loss to itself.
	Link Link
	// UserTimeout is how long data of a stream may be in transit before the sender's end
	// breaks with ETIMEDOUT, like TCP_USER_TIMEOUT. Zero means forever.
	UserTimeout time.Duration
}

// Net is a network. Its methods may be called from any goroutine of the bubble.
type Net struct {
	config Config

	// mu protects everything in the Net, its hosts and its streams. It is held only briefly
	// and never while waiting.
	mu       sync.Mutex
	rng      *rand.Rand // draws of loss and jitter
	machines map[string]*machine
	byIP     map[netip.Addr]*machine
	streams  map[*stream]struct{} // streams that are not closed at both ends

	// Faults and properties of the routes. A route without an entry in links has config.Link.
	cuts        map[route]bool // Cut: everything in transit is lost
	resetRoutes map[route]bool // Reset: streams break, and dials are refused
	links       map[route]Link

	// changed fires when a host or route may have become reachable or dead.
	changed notifier
}

// route is one direction between two hosts, by name.
type route struct{ from, to string }

// machine is the part of a host that survives the replacement of its process.
type machine struct {
	name string
	ip   netip.Addr
	// current is the current handle, or the last one.
	current *Host
	// poweredOff reports that the machine has no power.
	poweredOff bool
	// lastPort counts up for dialers and ":0" listeners.
	lastPort uint16
}

// New returns a Net without hosts.
func New(config Config) *Net {
	return &Net{
		config:      config,
		rng:         rand.New(rand.NewPCG(config.Seed, 0)), //nolint:gosec // a simulation needs no secure randomness
		machines:    make(map[string]*machine),
		byIP:        make(map[netip.Addr]*machine),
		cuts:        make(map[route]bool),
		resetRoutes: make(map[route]bool),
		links:       make(map[route]Link),
		streams:     make(map[*stream]struct{}),
	}
}

// Host adds a host. The first one gets the address 10.0.0.1, the next one 10.0.0.2. It
// panics if the name exists.
func (n *Net) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machines[name] != nil {
		panic(fmt.Sprintf("simnet: host %q exists", name))
	}
	i := len(n.machines) + 1
	machine := &machine{
		name:     name,
		ip:       netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}),
		lastPort: 32768,
	}
	n.machines[name], n.byIP[machine.ip] = machine, machine
	machine.current = newHost(n, machine)
	return machine.current
}

// Close crashes every host, so that all calls that wait on the network end.
func (n *Net) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.machines {
		n.crash(m.current)
	}
}

// isRouteOpen reports whether anything gets from one machine to the other. n.mu must be held for
// this and the following methods.
func (n *Net) isRouteOpen(from, to *machine) bool {
	if from.poweredOff || to.poweredOff {
		return false
	}
	if from == to {
		return true
	}
	losesAll := n.link(from, to).Loss >= 1
	return !losesAll && !n.cuts[route{from.name, to.name}]
}

// canExchange reports whether packets pass between two machines in both directions.
func (n *Net) canExchange(a, b *machine) bool { return n.isRouteOpen(a, b) && n.isRouteOpen(b, a) }

// roundTrip draws the delay of a segment and of its response.
func (n *Net) roundTrip(from, to *machine) time.Duration {
	return n.link(from, to).segmentDelay(n.rng) + n.link(to, from).segmentDelay(n.rng)
}

// link returns the properties of the route between two machines.
func (n *Net) link(from, to *machine) Link {
	if from == to {
		return Link{}
	}
	if l, ok := n.links[route{from.name, to.name}]; ok {
		return l
	}
	return n.config.Link
}

// await waits until the event occurs, done is closed, or the deadline has passed. The zero time
// means no deadline. n.mu is held on entry and on return, and released in between.
func (n *Net) await(event *notifier, done <-chan struct{}, deadline time.Time) {
	fired := event.notified()
	n.mu.Unlock()
	defer n.mu.Lock()
	var timer <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-fired:
	case <-done:
	case <-timer:
	}
}

// resolve resolves an address to a machine and a port, from the view of a host.
func (n *Net) resolve(from *machine, addr string) (*machine, uint16, error) {
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, 0, err
	}
	if host == "localhost" {
		return from, port, nil
	}
	if target := n.machines[host]; target != nil {
		return target, port, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, 0, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if ip.IsLoopback() {
		return from, port, nil
	}
	target := n.byIP[ip.Unmap()]
	if target == nil {
		return nil, 0, errNoRoute
	}
	return target, port, nil
}
