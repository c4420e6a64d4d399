package ack_test

import (
	"slices"
	"time"
)

// Elections, as hashicorp/raft v1.7.3 holds them with the repairs of package
// node/consensus: a pre-vote, unless leadership is handed over or the leader's
// process is known to be gone; the term, then the vote, written before any server
// learns of them.

func (c *simConf) votes(server string) bool { return slices.Contains(c.voters, server) }

func (p *proc) isVoter() bool { return p.disk.conf.votes(p.disk.server) && !p.h.copied }

// raftTimer runs the periodic actions of a Raft server.
func (p *proc) raftTimer() {
	w := p.w
	if p.h.copied {
		p.h.runDuplicate()
	} else if p.leader {
		for _, h := range w.hosts {
			if h != p.h {
				w.replicate(p, h)
			}
		}
		p.raft(func() {
			p.advance()
			p.checkQuorum()
		})
	} else if w.now-p.contact > p.patience && p.writing == nil {
		p.follows = nobody
		if p.isVoter() && (p.candidacy == nil || w.now-p.candidacy.since > p.patience) {
			p.patience = w.span(400*time.Millisecond, 900*time.Millisecond)
			if p.candidacy != nil {
				w.cover.undecided++
				p.candidacy = nil
			}
			if p.wouldWin() {
				p.startCampaign("timeout", false, w.n(2) == 0)
			}
		}
	}
	w.after(w.span(40*time.Millisecond, 80*time.Millisecond), p, p.raftTimer)
}

// checkQuorum makes a leader without a quorum step down, sooner or later.
func (p *proc) checkQuorum() {
	if !p.leader {
		return
	}
	heard := 0
	for _, h := range p.w.hosts {
		if p.disk.conf.votes(h.server()) && (h == p.h || p.peers[h.i].server == h.server() && p.w.now-p.peers[h.i].contact < p.quorumPatience) {
			heard++
		}
	}
	if 2*heard <= len(p.disk.conf.voters) && p.w.now-p.electedAt > p.quorumPatience {
		p.loseLeadership("no quorum")
	}
}

// wouldWin is the pre-vote. A server that receives a newer term adopts it instead.
func (p *proc) wouldWin() bool {
	votes, newest := 1, p.disk.term
	for _, h := range p.w.hosts {
		q := h.proc
		if q == nil || q == p || h.stopped || q.writing != nil || !p.disk.conf.votes(h.server()) || !p.w.reach(p.h, h) || !p.w.reach(h, p.h) {
			continue
		}
		newest = max(newest, q.disk.term)
		if !q.leader && q.follows == nobody && q.considersElectable(p.disk) && q.logNotNewer(p.disk) {
			votes++
		}
	}
	if newest > p.disk.term+1 {
		p.enterTerm(newest, func() {})
		return false
	}
	return 2*votes > len(p.disk.conf.voters)
}

// considersElectable reports whether the server of d may be elected as far as this server
// knows: it votes in the own log, or its log is newer and may contain the change.
func (p *proc) considersElectable(d *simDisk) bool {
	return len(p.disk.conf.voters) == 0 || p.disk.conf.votes(d.server) || p.follows == nobody && p.logNotNewer(d) && !p.sameLogEnd(d)
}

// logNotNewer reports whether the own log is not newer than that of d.
func (p *proc) logNotNewer(d *simDisk) bool {
	mine, theirs := p.disk.termAt(p.disk.last()), d.termAt(d.last())
	return mine < theirs || mine == theirs && p.disk.last() <= d.last()
}

// sameLogEnd reports whether the own log ends where that of d does.
func (p *proc) sameLogEnd(d *simDisk) bool {
	return p.disk.last() == d.last() && p.disk.termAt(p.disk.last()) == d.termAt(d.last())
}

// candidacy is the campaign of one server in one term.
type candidacy struct {
	term, last, lastTerm uint64
	why                  string
	asked                bool // by a leader, or by evidence: those vote, too, that know a leader
	since                time.Duration
	voters, votes        int
}

// campaign requests the vote of every voter, at one time if disks are fast, also of voters
// that have a leader.
func (p *proc) campaign(why string) { p.startCampaign(why, true, true) }

// startCampaign requests the vote of every voter, at one time or one after the other.
func (p *proc) startCampaign(why string, asked, atOnce bool) {
	if p.leader || p.writing != nil || !p.isVoter() {
		return
	}
	w, d := p.w, p.disk
	c := &candidacy{
		term: d.term + 1, last: d.last(), lastTerm: d.termAt(d.last()), why: why, asked: asked,
		since: w.now, voters: len(d.conf.voters), votes: 1,
	}
	p.candidacy, p.follows = c, nobody
	w.campaigns[c.term]++
	if w.campaigns[c.term] == 2 {
		w.cover.rivals++
	}
	p.store(writesTerm, func(d *simDisk) { d.term = c.term }, func() {
		p.store(writesVote, func(d *simDisk) { d.vote = ballot{c.term, d.server} }, func() {
			for _, h := range w.hosts {
				if h != p.h && p.disk.conf.votes(h.server()) {
					p.askFor(c, h, atOnce)
				}
			}
			p.count(c, 0)
		})
	})
}

// askFor carries a vote request and the response.
func (p *proc) askFor(c *candidacy, h *host, atOnce bool) {
	w := p.w
	carry := func(to *proc, f func()) {
		switch {
		case to == nil || to.dead:
		case atOnce:
			to.raft(f)
		default:
			w.after(w.span(100*time.Microsecond, 6*time.Millisecond), to, func() { to.raft(f) })
		}
	}
	q := h.proc
	if h.stopped || !w.reach(p.h, h) {
		return
	}
	carry(q, func() {
		q.voteFor(c, p, func(granted bool) {
			if !w.reach(h, p.h) {
				return
			}
			term := q.disk.term
			carry(p, func() {
				switch {
				case term > p.disk.term:
					p.enterTerm(term, func() {})
				case granted:
					p.count(c, 1)
				}
			})
		})
	})
}

// voteFor decides about a candidate by terms and logs, and by whether the candidate is a
// voter.
func (p *proc) voteFor(c *candidacy, by *proc, answer func(granted bool)) {
	no := func() { answer(false) }
	d, server := p.disk, by.disk.server
	knows := c.lastTerm > d.termAt(d.last()) || c.lastTerm == d.termAt(d.last()) && c.last > d.last()
	knows = knows && p.follows == nobody && !p.leader || d.conf.votes(server) || len(d.conf.voters) == 0
	switch {
	case c.term < d.term, !knows && !d.conf.has(server), !c.asked && (p.leader || p.follows != nobody && p.follows != by.h.i):
		no()
		return
	}
	p.enterTerm(c.term, func() {
		mine := d.termAt(d.last())
		switch {
		case d.term != c.term || !knows:
			no()
		case d.vote.term == c.term:
			p.w.cover.secondVotes++
			answer(d.vote.who == server)
		case mine > c.lastTerm || mine == c.lastTerm && d.last() > c.last:
			no()
		default:
			p.store(writesVote, func(d *simDisk) { d.vote = ballot{c.term, server} }, func() {
				p.contact = p.w.now
				answer(true)
			})
		}
	})
}

// count adds votes, and elects a server with a majority of the voters at the start of its
// campaign.
func (p *proc) count(c *candidacy, more int) {
	if p.candidacy != c || p.disk.term != c.term || p.leader {
		return
	}
	c.votes += more
	if 2*c.votes > c.voters {
		p.becomeLeader(c.why)
	}
}

// enterTerm adopts a newer term, and calls then when the disk has it.
func (p *proc) enterTerm(term uint64, then func()) {
	if term <= p.disk.term {
		then()
		return
	}
	p.candidacy, p.follows = nil, nobody
	if p.leader {
		p.loseLeadership("newer term")
	}
	p.store(writesTerm, func(d *simDisk) { d.term = term }, then)
}

func (p *proc) becomeLeader(why string) {
	w := p.w
	p.leader, p.hint, p.follows, p.candidacy, p.electedAt = true, p.h.i, p.h.i, nil, w.now
	p.peers = [simHosts]peerView{}
	w.logf("%s is elected in term %d (%s)", p.h.id, p.disk.term, why)
	w.cover.elections++
	if other := w.leaders[p.disk.term]; other != nil {
		w.fail("Raft: %s and %s are both elected in term %d", other.h.id, p.h.id, p.disk.term)
	}
	w.leaders[p.disk.term] = p
	w.won = append(w.won, victory{p.disk.term, w.now})
	if p.fsm.HasOpenProposal() {
		w.cover.openElections++
	}
	if p.commit-p.raftApplied > behindBy {
		w.cover.lateLeaders++
	}
	p.appendEntry(&logEntry{})
	w.after(w.span(0, 20*time.Millisecond), p, p.startLeading)
}

func (p *proc) loseLeadership(why string) {
	p.leader = false
	p.hint, p.follows = -1, nobody
	p.contact = p.w.now
	p.w.logf("%s leads no longer (%s)", p.h.id, why)
	if l := p.lead; l != nil {
		// The loop notices between two steps, which may take a while.
		p.w.after(p.w.span(0, 300*time.Millisecond), p, l.end)
	}
}

// faultSplit makes several voters campaign at the same time.
func faultSplit(w *world) bool {
	n := 0
	for _, h := range w.hosts {
		if running(h) && !h.proc.leader && h.proc.isVoter() && w.pick(4) > 0 {
			n++
			w.after(w.span(0, 3*time.Millisecond), h.proc, func() { h.proc.startCampaign("at the same moment", true, false) })
		}
	}
	w.run(w.now+w.span(5*time.Millisecond, 50*time.Millisecond), nil)
	return n > 1
}
