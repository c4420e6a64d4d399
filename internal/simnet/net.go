package simnet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Config says what a Net is like. The zero value is instant and perfect.
type Config struct {
	// Seed makes the draws of loss and jitter. Runs with one seed still differ
	// in what the scheduler orders.
	Seed uint64
	// Link is what hosts without a SetLink between them have. A host has no
	// delay or loss to itself.
	Link Link
	// UserTimeout is how long a stream's bytes may be on their way before the
	// sender's side breaks with ETIMEDOUT, as TCP_USER_TIMEOUT does. Zero:
	// they wait for ever.
	UserTimeout time.Duration
}

// Net is a network. All methods may be called from any goroutine of the
// bubble.
type Net struct {
	o Config

	// mu guards everything in the Net, its hosts and its streams. It is held
	// for moments only and never while anybody waits.
	mu       sync.Mutex
	rng      *rand.Rand
	machines map[string]*machine
	byIP     map[netip.Addr]*machine
	cuts     map[way]bool
	forged   map[way]bool
	links    map[way]Link
	streams  map[*stream]struct{}
	// changed fires when a host or a way may have become reachable or dead.
	changed latch
}

// way is one direction between two hosts, by name.
type way struct{ from, to string }

// machine is what stays of a host when its process is replaced.
type machine struct {
	name string
	ip   netip.Addr
	// cur is the handle in use, or the last one that was.
	cur *Host
	// off means that the machine has no power.
	off bool
	// ports counts up for dialing sides and ":0" listeners.
	ports uint16
}

// New returns a Net without hosts.
func New(c Config) *Net {
	return &Net{
		o:        c,
		rng:      rand.New(rand.NewPCG(c.Seed, 0)), //nolint:gosec // draws of a simulation
		machines: make(map[string]*machine),
		byIP:     make(map[netip.Addr]*machine),
		cuts:     make(map[way]bool),
		forged:   make(map[way]bool),
		links:    make(map[way]Link),
		streams:  make(map[*stream]struct{}),
	}
}

// Host adds a host. The first gets the address 10.0.0.1, the next 10.0.0.2.
// It panics if the name is taken.
func (n *Net) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machines[name] != nil {
		panic(fmt.Sprintf("simnet: host %q exists", name))
	}
	i := len(n.machines) + 1
	m := &machine{
		name:  name,
		ip:    netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}),
		ports: 32768,
	}
	n.machines[name], n.byIP[m.ip] = m, m
	m.cur = newHost(n, m)
	return m.cur
}

// Close crashes every host, so that whatever still waits on the network ends.
func (n *Net) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.machines {
		n.crash(m.cur)
	}
}

// open reports whether anything gets from one machine to the other. n.mu is
// held, here and in all that follows.
func (n *Net) open(from, to *machine) bool {
	if from == to {
		return !from.off
	}
	return !from.off && !to.off && !n.cuts[way{from.name, to.name}] && n.link(from, to).Loss < 1
}

func (n *Net) link(from, to *machine) Link {
	if from == to {
		return Link{}
	}
	if l, ok := n.links[way{from.name, to.name}]; ok {
		return l
	}
	return n.o.Link
}

// await waits until l fires, done is closed or until has come; the zero time
// never comes. n.mu is held at entry and return and not in between.
func (n *Net) await(l *latch, done <-chan struct{}, until time.Time) {
	fired := l.wait()
	n.mu.Unlock()
	defer n.mu.Lock()
	var timer <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-fired:
	case <-done:
	case <-timer:
	}
}

// find returns the machine an address stands for, as seen from a host.
func (n *Net) find(from *machine, addr string) (*machine, uint16, error) {
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, 0, err
	}
	if host == "localhost" {
		return from, port, nil
	}
	if m := n.machines[host]; m != nil {
		return m, port, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, 0, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if ip.IsLoopback() {
		return from, port, nil
	}
	m := n.byIP[ip.Unmap()]
	if m == nil {
		return nil, 0, errNoRoute
	}
	return m, port, nil
}
