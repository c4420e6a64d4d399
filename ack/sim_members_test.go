package ack_test

import (
	"slices"
	"time"

	"shardway/ack/leader"
	"shardway/shardmap"
)

// Maintenance of the Raft configuration: the keeper of package node, and the rules of the
// library about accepting a change.

// members maintains the Raft configuration, one change at a time, as package node does.
func (l *leaderLoop) members() {
	p, w := l.p, l.p.w
	if l.over || !p.leader {
		return
	}
	w.after(w.span(80*time.Millisecond, 200*time.Millisecond), p, l.members)
	if !p.fsm.Bootstrapped() || !p.raftAccepts() || !p.confCommitted() || l.replaces() || l.removeServer() {
		return
	}
	c := p.disk.conf
	if len(c.voters) < w.voters {
		if s := l.nonvoterToPromote(); s != "" {
			l.reconfigure("promotes "+s, with(c.voters, s), without(c.others, s))
		}
	}
}

// replaces removes the server of a disk that was replaced, or adds one that is new.
func (l *leaderLoop) replaces() bool {
	p, w := l.p, l.p.w
	c := p.disk.conf
	for _, h := range w.hosts {
		if h.twin != nil && l.receivesFrom(h.twin.server()) {
			continue // gossip shows one of the two
		}
		if h.proc == nil || h.proc.leaving || h.id == p.h.id || !w.reach(p.h, h) || !w.reach(h, p.h) || c.has(h.server()) {
			continue
		}
		if old := c.serverOf(h.id); old != "" {
			if !l.nameFree(old) {
				continue
			}
			w.checkName(l, h.id, h.server())
			if !c.votes(old) || len(c.voters) > 1 && 2*l.countStayingVoters(old) > len(c.voters)-1 {
				l.reconfigure("removes "+old, without(c.voters, old), without(c.others, old))
			}
		} else {
			l.reconfigure("adds "+h.server(), c.voters, with(c.others, h.server()))
		}
		return true
	}
	return false
}

// nameFree reports whether nothing may run on the disk of this server any more, so that
// another disk may use the node id.
func (l *leaderLoop) nameFree(server string) bool {
	v, ok := l.viewOf(nodeOfServer(server))
	return !l.receivesFrom(server) && (!ok || v.ProcessGone || l.p.w.plant == plantNameAtOnce)
}

// receivesFrom reports whether this server sends fresh heartbeats.
func (l *leaderLoop) receivesFrom(server string) bool {
	v, _ := l.viewOf(nodeOfServer(server))
	return v.SinceHeartbeat >= 0 && !v.Silent && v.Heartbeat.Server == server
}

// echoes reports whether the node of this server has echoed answers of this leader.
func (l *leaderLoop) echoes(server string) bool {
	v, _ := l.viewOf(nodeOfServer(server))
	return v.LinkWorks || l.p.w.plant == plantHeardVotes
}

// viewOf returns the MemberView of a node.
func (l *leaderLoop) viewOf(id shardmap.NodeID) (leader.MemberView, bool) {
	for _, v := range l.turn.View() {
		if v.Node == id {
			return v, true
		}
	}
	return leader.MemberView{SinceHeartbeat: -1, Silent: true}, false
}

// removeServer removes the server of a node that has sent a goodbye, or is down for long. A
// voter is removed only if three voters remain, and gets a successor first.
func (l *leaderLoop) removeServer() bool {
	p, w := l.p, l.p.w
	c := p.disk.conf
	for _, h := range w.hosts {
		s := h.server()
		long := h.proc == nil && w.now-h.downFrom > w.removeDeadAfter
		if h == p.h || h.copied || !c.has(s) || !long && (h.proc == nil || !h.proc.goodbye || h.proc.back > 0) {
			continue
		}
		switch spare := l.nonvoterToPromote(); {
		case c.votes(s) && long && spare != "" && len(c.voters) <= w.voters:
			l.reconfigure("promotes "+spare+" in place of "+s, with(c.voters, spare), without(c.others, spare))
		case !c.votes(s) || long && len(c.voters) > 3 && 2*l.countStayingVoters(s) > len(c.voters) || !long && l.countStayingVoters(s) >= 3:
			w.cover.removedDead++
			l.reconfigure("lets go "+s, without(c.voters, s), without(c.others, s))
		default:
			continue
		}
		return true
	}
	return false
}

// countStayingVoters counts the live voters, except one, that do not leave.
func (l *leaderLoop) countStayingVoters(but string) int {
	n := 0
	for _, v := range l.p.disk.conf.voters {
		if h := l.p.w.byServer(v); v != but && h != nil && h.proc != nil && !h.proc.leaving && (h == l.p.h || l.receivesFrom(v)) {
			n++
		}
	}
	return n
}

// nonvoterToPromote returns a nonvoter that may become a voter, or "".
func (l *leaderLoop) nonvoterToPromote() string {
	p, w := l.p, l.p.w
	for _, s := range p.disk.conf.others {
		if h := w.byServer(s); h != nil && h.proc != nil && !h.proc.leaving && p.peers[h.i].server == s && p.peers[h.i].match >= p.commit && l.receivesFrom(s) && l.echoes(s) {
			return s
		}
	}
	return ""
}

// faultDemote demotes a voter, possibly the leader.
func faultDemote(w *world) bool {
	l := w.randomHost(func(h *host) bool { return w.reconfigures(h) && len(h.proc.disk.conf.voters) > 2 })
	if l == nil {
		return false
	}
	c := l.proc.disk.conf
	s := c.voters[w.pick(len(c.voters))]
	if !w.canLoseVoter(c, s) {
		return false
	}
	w.cover.demoted++
	l.proc.lead.reconfigure("demotes "+s, without(c.voters, s), with(c.others, s))
	return true
}

// faultUnresponsiveSpare restarts a nonvoter next to a cluster of one voter. It gets the log, but
// no answers to its heartbeats, also not after the faults. As one of two voters it would prevent
// all leases.
func faultUnresponsiveSpare(w *world) bool {
	l := w.randomHost(func(h *host) bool { return running(h) && leads(h) && len(h.proc.disk.conf.voters) == 1 })
	x := w.randomHost(func(h *host) bool { return running(h) && !h.proc.leader && !h.proc.isVoter() })
	if l == nil || x == nil || !l.proc.confCommitted() {
		return false
	}
	w.logf("scene: %s is deaf for good, and restarts", x.id)
	x.deaf, x.deafForGood = true, true
	x.crash()
	w.back(x, 0)
	return true
}

// faultExpel removes the server of a running node, as a leader does after a long silence. The
// node is added again as a nonvoter. It may be the leader.
func faultExpel(w *world) bool {
	l := w.randomHost(w.reconfigures)
	if l == nil {
		return false
	}
	c := l.proc.disk.conf
	all := slices.Concat(c.voters, c.others)
	s := all[w.pick(len(all))]
	if c.votes(s) && !w.canLoseVoter(c, s) {
		return false
	}
	w.cover.expelled++
	l.proc.lead.reconfigure("expels "+s, without(c.voters, s), without(c.others, s))
	return true
}

// canLoseVoter reports whether the cluster may lose the voter s. Two voters never become one,
// because the library would stop if only the log of the removed voter contained its removal. The remaining voters must have their disks, and must be a majority of the previous
// voters: if only the log of the removed voter contains the removal, that voter does not campaign
// and votes for no server with a shorter log. Package membership removes a voter while the leader
// receives heartbeats of three others.
func (w *world) canLoseVoter(c *simConf, s string) bool {
	left := without(c.voters, s)
	return len(left) > 1 && w.hasQuorumWithout(left, nil) && w.hasQuorumWithout(c.voters, w.byServer(s))
}

// faultReconfigure makes a leader demote or promote a server, and elects another leader before
// that is committed.
func faultReconfigure(w *world) bool {
	l := w.randomHost(w.reconfigures)
	o := w.randomHost(func(h *host) bool { return running(h) && !h.proc.leader && h.proc.isVoter() })
	if l == nil || o == nil {
		return false
	}
	w.logf("scene: %s changes the configuration, and %s leads", l.id, o.id)
	if w.pick(2) == 0 {
		w.cutLinks(func(i, j int) bool { return (i == l.i || j == l.i) && w.n(3) > 0 })
	}
	hit := faultDemote(w)
	w.run(w.now+w.span(0, 5*time.Millisecond), nil)
	if running(o) {
		o.proc.campaign("while the configuration changes")
	}
	w.run(w.now+w.span(0, 60*time.Millisecond), nil)
	return faultDemote(w) || hit
}

// reconfigures reports whether the leader on a host accepts a change now.
func (w *world) reconfigures(h *host) bool {
	return running(h) && leads(h) && h.proc.raftAccepts() && h.proc.confCommitted()
}

func (l *leaderLoop) reconfigure(what string, voters, others []string) {
	i := l.p.appendEntry(&logEntry{conf: &simConf{voters, others}})
	l.p.w.logf("%s %s at %d", l.p.h.id, what, i)
	l.p.w.cover.reconfigured++
}

// confCommitted reports whether the latest configuration and an entry of the own term are
// committed. Before that Raft accepts no change.
func (p *proc) confCommitted() bool {
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
