package ack_test

import (
	"slices"
	"time"
)

// The keeping of Raft's configuration: package node's keeper, and the library's
// rules about when it takes a change.

// members keeps Raft's configuration, one change at a time, as package node does.
func (l *leading) members() {
	p, w := l.p, l.p.w
	if l.over || !p.leader {
		return
	}
	w.after(w.span(80*time.Millisecond, 200*time.Millisecond), p, l.members)
	c := p.disk.conf
	if l.conf == nil || !p.confSettled() {
		return
	}
	for _, h := range w.hosts {
		if h.proc == nil || !w.reach(p.h, h) || !w.reach(h, p.h) || c.has(h.server()) {
			continue
		}
		if old := c.serverOf(h.id); old != "" {
			l.reconfigure("removes "+old, without(c.voters, old), without(c.others, old))
		} else {
			l.reconfigure("adds "+h.server(), c.voters, with(c.others, h.server()))
		}
		return
	}
	if len(c.voters) >= w.voters {
		return
	}
	for _, s := range c.others {
		if h := w.byNode(nodeOf(s)); h.proc != nil && p.peers[h.i].server == s && p.peers[h.i].match >= p.commit {
			l.reconfigure("promotes "+s, with(c.voters, s), without(c.others, s))
			return
		}
	}
}

func (l *leading) reconfigure(what string, voters, others []string) {
	i := l.p.appendEntry(&logEntry{conf: &simConf{voters, others}})
	l.p.w.logf("%s %s at %d", l.p.h.id, what, i)
	l.p.w.cover.reconfigured++
}

// confSettled reports whether the latest configuration is committed, and so is
// an entry of the own term: before that Raft changes nothing.
func (p *proc) confSettled() bool {
	if p.commit < p.disk.base || p.disk.termAt(p.commit) != p.disk.term {
		return false
	}
	for _, e := range p.disk.log[p.commit-p.disk.base:] {
		if e.conf != nil {
			return false
		}
	}
	return true
}

func with(list []string, s string) []string {
	out := append(slices.Clone(list), s)
	slices.Sort(out)
	return out
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(x string) bool { return x == s })
}
