package ack_test

import (
	"slices"
	"time"
)

func (p *proc) isVoter() bool { return slices.Contains(p.disk.conf.voters, p.disk.server) }

// raftTimer is all that a Raft server does on its own.
func (p *proc) raftTimer() {
	w := p.w
	if p.leader {
		for _, h := range w.hosts {
			if h != p.h {
				w.replicate(p, h)
			}
		}
		p.advance()
		p.checkQuorum()
	} else if p.isVoter() && w.now-p.contact > p.patience {
		p.patience = w.span(400*time.Millisecond, 900*time.Millisecond)
		if p.wouldWin() {
			p.campaign("timeout")
		}
	}
	w.after(w.span(40*time.Millisecond, 80*time.Millisecond), p, p.raftTimer)
}

// checkQuorum lets a leader that hears no quorum give up, sooner or later.
func (p *proc) checkQuorum() {
	heard := 0
	for _, h := range p.w.hosts {
		if slices.Contains(p.disk.conf.voters, h.server()) && (h == p.h || p.peers[h.i].server == h.server() && p.w.now-p.peers[h.i].contact < p.quorumPatience) {
			heard++
		}
	}
	if 2*heard <= len(p.disk.conf.voters) && p.w.now-p.electedAt > p.quorumPatience {
		p.loseLeadership("no quorum")
	}
}

// wouldWin is the pre-vote.
func (p *proc) wouldWin() bool {
	votes := 0
	for _, h := range p.w.hosts {
		q := h.proc
		if q == nil || !slices.Contains(p.disk.conf.voters, h.server()) {
			continue
		}
		if q == p || !h.stopped && p.w.reach(p.h, h) && p.w.reach(h, p.h) && !q.leader && p.w.now-q.contact > 300*time.Millisecond && q.atMost(p.disk) {
			votes++
		}
	}
	return 2*votes > len(p.disk.conf.voters)
}

// atMost reports whether the own log is not newer than d's.
func (p *proc) atMost(d *simDisk) bool {
	mine, theirs := p.disk.termAt(p.disk.last()), d.termAt(d.last())
	return mine < theirs || mine == theirs && p.disk.last() <= d.last()
}

// campaign asks every voter for its vote, all in one moment.
func (p *proc) campaign(why string) {
	w := p.w
	if p.leader || !p.isVoter() {
		return
	}
	p.enterTerm(p.disk.term + 1)
	term, votes := p.disk.term, 1
	for _, h := range w.hosts {
		q := h.proc
		if q == nil || q == p || h.stopped || !slices.Contains(p.disk.conf.voters, h.server()) || !w.reach(p.h, h) {
			continue
		}
		if q.disk.term >= term {
			if w.reach(h, p.h) {
				p.enterTerm(q.disk.term)
			}
			continue
		}
		q.enterTerm(term)
		if q.atMost(p.disk) {
			q.contact = w.now
			if w.reach(h, p.h) {
				votes++
			}
		}
	}
	if p.disk.term != term || 2*votes <= len(p.disk.conf.voters) {
		w.logf("%s stood for term %d (%s): %d votes", p.h.id, term, why, votes)
		return
	}
	p.becomeLeader(why)
}

// enterTerm adopts a newer term.
func (p *proc) enterTerm(term uint64) {
	if term <= p.disk.term {
		return
	}
	p.disk.term = term
	if p.leader {
		p.loseLeadership("newer term")
	}
}

func (p *proc) becomeLeader(why string) {
	w := p.w
	p.leader, p.hint, p.electedAt = true, p.h.i, w.now
	p.peers = [simHosts]peerView{}
	w.logf("%s is elected in term %d (%s)", p.h.id, p.disk.term, why)
	w.cover.elections++
	w.won = append(w.won, victory{p.disk.term, w.now})
	if p.fsm.Open() {
		w.cover.openElections++
	}
	p.appendEntry(&logEntry{})
	w.after(w.span(0, 20*time.Millisecond), p, p.startLeading)
}

func (p *proc) loseLeadership(why string) {
	p.leader = false
	p.hint = -1
	p.contact = p.w.now
	p.w.logf("%s leads no longer (%s)", p.h.id, why)
	if l := p.lead; l != nil {
		// The loop notices between two steps, which may take a while.
		p.w.after(p.w.span(0, 300*time.Millisecond), p, l.end)
	}
}
