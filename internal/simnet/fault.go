package simnet

import "io"

// Crash kills the process of the host. Its kernel closes its streams: the peers get the
// data in flight and then EOF, or a reset if the host had unread data. Dials are refused
// until a process after Restart listens. The handle is dead.
func (h *Host) Crash() {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	h.network.crash(h)
}

func (n *Net) crash(host *Host) {
	if host.state == dead {
		return
	}
	n.setState(host, dead, func(c *conn) { c.closeWithError(io.EOF) })
}

// Vanish cuts the power of the host, which then no longer responds, not even to dials. The handle
// is dead. After a Restart, the peers of its old streams get resets.
func (h *Host) Vanish() {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if h.state == dead {
		return
	}
	h.machine.poweredOff = true
	h.network.setState(h, dead, func(c *conn) {
		// Data that had not left the host is lost.
		c.outgoing.dropInTransit()
		c.closeWithError(errReset)
	})
}

// Freeze stops the process of the host. Its network calls do not return, not even at their
// deadlines, and it sends nothing new. Streams stay open, data sent to it waits, and dials
// to it block. Packets that it would send are lost.
func (h *Host) Freeze() {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if h.state == running {
		h.network.setState(h, frozen, nil)
	}
}

// Thaw continues a frozen host.
func (h *Host) Thaw() {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if h.state != frozen {
		return
	}
	h.network.setState(h, running, nil)
	for _, socket := range h.packetSockets {
		socket.thaw()
	}
}

// Restart returns the handle for the next process of the host, with the same name and
// address. It crashes the current process if that is not dead.
func (h *Host) Restart() *Host {
	network := h.network
	network.mu.Lock()
	defer network.mu.Unlock()
	network.crash(h.machine.current)
	h.machine.poweredOff = false
	h.machine.current = newHost(network, h.machine)
	network.applyChanges()
	return h.machine.current
}

// setState changes the state of a host, calls closeConn for its ends of streams, and wakes all
// affected waiters. A nil closeConn is not called.
func (n *Net) setState(host *Host, newState state, closeConn func(*conn)) {
	host.state = newState
	if newState == dead {
		host.closePorts()
	}
	for stream := range n.streams {
		for _, conn := range []*conn{stream.dialerEnd, stream.listenerEnd} {
			if conn.host != host {
				continue
			}
			if closeConn != nil {
				closeConn(conn)
			}
			conn.wake.notifyAll()
		}
	}
	for _, listener := range host.listeners {
		listener.wake.notifyAll()
	}
	host.changed.notifyAll()
	n.applyChanges()
}

// closePorts closes all listeners and packet sockets of the host.
func (h *Host) closePorts() {
	for _, listener := range h.listeners {
		listener.close()
	}
	for _, socket := range h.packetSockets {
		socket.close()
	}
}

// applyChanges makes every stream and every dial check hosts and routes again.
func (n *Net) applyChanges() {
	for s := range n.streams {
		s.dialerEnd.outgoing.applyChanges(n)
		s.listenerEnd.outgoing.applyChanges(n)
	}
	n.changed.notifyAll()
}

// Cut stops everything in transit from one host to another, by name. Packets are lost and
// streams wait. The other direction is not affected.
func (n *Net) Cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[route{from, to}] = true
	n.applyChanges()
}

// RevertCut reverts Cut for that direction.
func (n *Net) RevertCut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cuts, route{from, to})
	n.applyChanges()
}

// Partition cuts all hosts of each group from the hosts of the other groups, in both
// directions. Hosts in no group and earlier cuts are not changed.
func (n *Net) Partition(groups ...[]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, group := range groups {
		for _, other := range groups[i+1:] {
			n.cutGroups(group, other)
		}
	}
	n.applyChanges()
}

// cutGroups cuts all hosts of one group from those of another, in both directions.
func (n *Net) cutGroups(group, other []string) {
	for _, a := range group {
		for _, b := range other {
			n.cuts[route{a, b}] = true
			n.cuts[route{b, a}] = true
		}
	}
}

// Isolate cuts one host from all others, in both directions.
func (n *Net) Isolate(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other := range n.machines {
		if other != name {
			n.cuts[route{name, other}] = true
			n.cuts[route{other, name}] = true
		}
	}
	n.applyChanges()
}

// Reset sends forged resets for every stream between two hosts, by name, like a firewall
// that rejects them. Open streams break on both sides, and dials are refused although the
// port has a listener. Packets pass. Heal ends it.
func (n *Net) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resetRoutes[route{a, b}] = true
	n.resetRoutes[route{b, a}] = true
	for s := range n.streams {
		if n.isReset(s.dialerEnd.host.machine, s.listenerEnd.host.machine) {
			s.dialerEnd.breakWithError(errReset)
			s.listenerEnd.breakWithError(errReset)
		}
	}
	n.changed.notifyAll()
}

// isReset reports whether streams between two machines are reset in transit.
func (n *Net) isReset(a, b *machine) bool { return n.resetRoutes[route{a.name, b.name}] }

// Heal reverts all cuts, and all resets for future dials.
func (n *Net) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	clear(n.resetRoutes)
	n.applyChanges()
}

// SetLink sets the Link between two hosts, by name, in both directions, from now on.
func (n *Net) SetLink(a, b string, link Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[route{a, b}] = link
	n.links[route{b, a}] = link
	n.applyChanges()
}
