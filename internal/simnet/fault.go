package simnet

import "io"

// Crash kills the host's process. Its ends of streams are closed by its
// kernel: the other sides get what was under way and then EOF, or a reset if
// something sent to it was unread. Dials to it are refused until a Restart
// listens. The handle is dead.
func (h *Host) Crash() {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.n.crash(h)
}

func (n *Net) crash(h *Host) {
	if h.state == dead {
		return
	}
	n.settle(h, dead, func(c *conn) { c.shut(io.EOF) })
}

// Vanish takes the host's power: silence, also towards dials. The handle is
// dead. After a Restart the other sides of its old streams get resets.
func (h *Host) Vanish() {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if h.state == dead {
		return
	}
	h.m.off = true
	h.n.settle(h, dead, func(c *conn) {
		// What had not left goes with the power.
		c.out.drop()
		c.shut(errReset)
	})
}

// Freeze stops the host's process: calls on its network do not return, also
// not at their deadlines, and nothing new leaves it. Streams stay open; what
// is sent to it waits; dials to it hang. Packets it would send are lost.
func (h *Host) Freeze() {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if h.state == running {
		h.n.settle(h, frozen, nil)
	}
}

// Thaw continues a frozen host.
func (h *Host) Thaw() {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if h.state != frozen {
		return
	}
	h.n.settle(h, running, nil)
	for _, s := range h.socks {
		s.thaw()
	}
}

// Restart returns the handle for the host's next process, which has the same
// name and address. The one before is crashed if it was not dead.
func (h *Host) Restart() *Host {
	n := h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	n.crash(h.m.cur)
	h.m.off = false
	h.m.cur = newHost(n, h.m)
	n.review()
	return h.m.cur
}

// settle gives h another state, lets shut treat its ends of streams, and wakes
// whoever that concerns.
func (n *Net) settle(h *Host, s state, shut func(*conn)) {
	h.state = s
	if s == dead {
		for _, l := range h.listeners {
			l.close()
		}
		for _, p := range h.socks {
			p.close()
		}
	}
	for st := range n.streams {
		for _, c := range []*conn{st.a, st.b} {
			if c.h != h {
				continue
			}
			if shut != nil {
				shut(c)
			}
			c.wake.fire()
		}
	}
	for _, l := range h.listeners {
		l.wake.fire()
	}
	h.changed.fire()
	n.review()
}

// review lets every stream and every dial look at hosts and ways anew.
func (n *Net) review() {
	for s := range n.streams {
		s.a.out.review(n)
		s.b.out.review(n)
	}
	n.changed.fire()
}

// Cut stops everything on its way from one host to another, by name. Packets
// are lost, streams wait. The other direction is not touched.
func (n *Net) Cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[way{from, to}] = true
	n.review()
}

// Mend undoes Cut for that direction.
func (n *Net) Mend(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cuts, way{from, to})
	n.review()
}

// Partition cuts, both ways, every host of each group from the hosts of the
// other groups. Hosts in no group and earlier cuts stay as they are.
func (n *Net) Partition(groups ...[]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, g := range groups {
		for j, other := range groups {
			if i == j {
				continue
			}
			for _, from := range g {
				for _, to := range other {
					n.cuts[way{from, to}] = true
				}
			}
		}
	}
	n.review()
}

// Isolate cuts one host from all others, both ways.
func (n *Net) Isolate(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other := range n.machines {
		if other != name {
			n.cuts[way{name, other}] = true
			n.cuts[way{other, name}] = true
		}
	}
	n.review()
}

// Reset answers every stream between two hosts, by name, with forged resets,
// as a firewall between them does that rejects: open ones break on both sides,
// and dials are refused though somebody listens. Packets pass. Heal ends it.
func (n *Net) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forged[way{a, b}] = true
	n.forged[way{b, a}] = true
	for s := range n.streams {
		if n.forges(s.a.h.m, s.b.h.m) {
			s.a.fail(errReset)
			s.b.fail(errReset)
		}
	}
	n.changed.fire()
}

// forges reports whether streams between two machines are reset on their way.
func (n *Net) forges(a, b *machine) bool { return n.forged[way{a.name, b.name}] }

// Heal undoes all cuts, and all resets for dials to come.
func (n *Net) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	clear(n.forged)
	n.review()
}

// SetLink says how bytes travel between two hosts, by name, both ways, from
// now on.
func (n *Net) SetLink(a, b string, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[way{a, b}] = l
	n.links[way{b, a}] = l
	n.review()
}
