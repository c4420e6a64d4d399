package simnet

import "io"

// Crash kills the process of the host. Its kernel closes its streams: the peers get the
// data in flight and then EOF, or a reset if the host had unread data. Dials are refused
// until a process after Restart listens. The handle is dead.
func (h *Host) Crash() {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.n.crash(h)
}

func (n *Net) crash(h *Host) {
	if h.state == dead {
		return
	}
	n.setState(h, dead, func(c *conn) { c.shut(io.EOF) })
}

// Vanish cuts the power of the host: it does not respond any more, also not to dials. The
// handle is dead. After a Restart the peers of its old streams get resets.
func (h *Host) Vanish() {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if h.state == dead {
		return
	}
	h.m.off = true
	h.n.setState(h, dead, func(c *conn) {
		// Data that had not left the host is lost.
		c.out.drop()
		c.shut(errReset)
	})
}

// Freeze stops the process of the host. Its network calls do not return, not even at their
// deadlines, and it sends nothing new. Streams stay open, data sent to it waits, and dials
// to it block. Packets that it would send are lost.
func (h *Host) Freeze() {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if h.state == running {
		h.n.setState(h, frozen, nil)
	}
}

// Thaw continues a frozen host.
func (h *Host) Thaw() {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if h.state != frozen {
		return
	}
	h.n.setState(h, running, nil)
	for _, s := range h.socks {
		s.thaw()
	}
}

// Restart returns the handle for the next process of the host, with the same name and
// address. It crashes the current process if that is not dead.
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

// setState changes the state of h, calls shut for its ends of streams, and wakes all
// affected waiters.
func (n *Net) setState(h *Host, s state, shut func(*conn)) {
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

// review makes every stream and every dial check hosts and routes again.
func (n *Net) review() {
	for s := range n.streams {
		s.a.out.review(n)
		s.b.out.review(n)
	}
	n.changed.fire()
}

// Cut stops everything in transit from one host to another, by name. Packets are lost and
// streams wait. The other direction is not affected.
func (n *Net) Cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[route{from, to}] = true
	n.review()
}

// RevertCut reverts Cut for that direction.
func (n *Net) RevertCut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cuts, route{from, to})
	n.review()
}

// Partition cuts all hosts of each group from the hosts of the other groups, in both
// directions. Hosts in no group and earlier cuts are not changed.
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
					n.cuts[route{from, to}] = true
				}
			}
		}
	}
	n.review()
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
	n.review()
}

// Reset sends forged resets for every stream between two hosts, by name, like a firewall
// that rejects them. Open streams break on both sides, and dials are refused although the
// port has a listener. Packets pass. Heal ends it.
func (n *Net) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forged[route{a, b}] = true
	n.forged[route{b, a}] = true
	for s := range n.streams {
		if n.forges(s.a.h.m, s.b.h.m) {
			s.a.fail(errReset)
			s.b.fail(errReset)
		}
	}
	n.changed.fire()
}

// forges reports whether streams between two machines are reset in transit.
func (n *Net) forges(a, b *machine) bool { return n.forged[route{a.name, b.name}] }

// Heal reverts all cuts, and all resets for future dials.
func (n *Net) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	clear(n.forged)
	n.review()
}

// SetLink sets the Link between two hosts, by name, in both directions, from now on.
func (n *Net) SetLink(a, b string, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[route{a, b}] = l
	n.links[route{b, a}] = l
	n.review()
}
