package ack_test

import (
	"bytes"
	"slices"
	"time"

	"shardway/ack"
)

// logEntry is an entry of the log: data, a configuration, or neither: a barrier.
// Servers share the pointers.
type logEntry struct {
	term uint64
	data []byte
	conf *simConf

	commit     bool // data is a commit
	byOperator bool // or a requested change of the policy
	queuedPolicy
}

// simConf is a configuration: server ids, sorted.
type simConf struct{ voters, others []string }

func (c *simConf) has(server string) bool {
	return slices.Contains(c.voters, server) || slices.Contains(c.others, server)
}

// raftWorld is the global state of the log model.
type raftWorld struct {
	first     *simConf    // the configuration that it begins with
	committed []*logEntry // by index; nil where not yet seen
	applied   map[stateKey]*ack.State
	campaigns map[uint64]int   // by term: number of candidates
	leaders   map[uint64]*proc // by term
}

func newRaftWorld() raftWorld {
	return raftWorld{applied: map[stateKey]*ack.State{}, campaigns: map[uint64]int{}, leaders: map[uint64]*proc{}}
}

// stateKey lets servers that apply the same entry to the same state share the result, which is
// equal because State is pure.
type stateKey struct {
	before *ack.State
	entry  *logEntry
}

// peerView is the progress of the log of a server, as the leader has recorded it.
type peerView struct {
	server  string
	match   uint64
	contact time.Duration
}

// appendEntry appends an entry to the log of the leader, unless Raft is busy writing, and
// returns its index. The leader writes the entry before it sends it.
func (p *proc) appendEntry(e *logEntry) uint64 {
	if p.writing != nil {
		return 0
	}
	e.term = p.disk.term
	i := p.disk.last() + 1
	p.store(writesLog, func(d *simDisk) { d.put(i-1, e) }, func() {
		p.nudge()
		p.advance()
	})
	return i
}

// nudge replicates soon.
func (p *proc) nudge() {
	if p.nudged {
		return
	}
	p.nudged = true
	p.w.after(p.w.span(200*time.Microsecond, 5*time.Millisecond), p, func() {
		p.nudged = false
		for _, h := range p.w.hosts {
			if h != p.h {
				p.w.replicate(p, h)
			}
		}
	})
}

// nobody means that a server has received no message of a leader.
const nobody = -1

// behindBy is the number of unapplied entries from which a server counts as far behind.
const behindBy = 3

// replicate is one AppendEntries or InstallSnapshot and its response, at one time if disks are
// fast. Either message may get lost.
func (w *world) replicate(l *proc, h *host) {
	f := h.proc
	if !l.leader || f == nil || h.stopped || !l.disk.conf.has(h.server()) || !w.reach(l.h, h) {
		return
	}
	term := l.disk.term
	switch {
	case f.writing != nil:
		// Heartbeats go past a write that takes long.
		if f.disk.term == term && !f.leader && w.reach(h, l.h) {
			f.contact, l.view(h).contact = w.now, w.now
		}
		return
	case f.disk.term > term:
		if w.reach(h, l.h) {
			l.loseLeadership("newer term")
		}
		return
	}
	f.enterTerm(term, func() {
		if !l.leader || l.disk.term != term || l.dead || f.disk.term != term {
			return
		}
		f.candidacy = nil
		f.contact, f.hint, f.follows = w.now, l.h.i, l.h.i
		f.greetLeader()
		commit := l.commit
		w.appendTo(l.disk, f, func(match uint64) {
			f.learnCommit(min(commit, match))
			if !w.reach(h, l.h) || l.dead || !l.leader || l.disk.term != term {
				return
			}
			view := l.view(h)
			view.contact = w.now
			if match > view.match {
				view.match = match
				l.raft(l.advance)
			}
		})
	})
}

// view returns what the leader knows about the log of the server of a host.
func (p *proc) view(h *host) *peerView {
	v := &p.peers[h.i]
	if v.server != h.server() {
		*v = peerView{server: h.server()}
	}
	return v
}

// appendTo brings the log of f closer to that of the leader, and calls then with the last
// matching index once that is written.
func (w *world) appendTo(d *simDisk, f *proc, then func(match uint64)) {
	i := min(d.last(), f.disk.last())
	for i > max(d.base, f.disk.base) && d.termAt(i) != f.disk.termAt(i) {
		i--
	}
	// Only the snapshot contains the entries before the first one.
	if i < d.base || i == d.base && d.base < d.snapAt || i == d.base && i >= f.disk.base && f.disk.termAt(i) != d.baseTerm {
		f.install(d, then)
		return
	}
	if i < f.disk.base {
		then(min(f.disk.base, d.last()))
		return
	}
	n := d.last() - i
	if n > 1 && w.n(4) == 0 {
		n = 1 + uint64(w.n(int(n)))
	}
	if n == 0 {
		then(i)
		return
	}
	if i < f.disk.last() {
		w.overwritten(f.disk.log[i-f.disk.base:])
	}
	es := d.log[i-d.base : i-d.base+n]
	f.store(writesLog, func(d *simDisk) { d.put(i, es...) }, func() { then(i + n) })
}

// overwritten counts entries that are replaced by those of a newer leader.
func (w *world) overwritten(es []*logEntry) {
	for _, e := range es {
		switch {
		case e.data != nil:
			w.cover.lostEntries++
		case e.conf != nil:
			w.cover.lostConfs++
		}
	}
}

// install replaces the own state and log by the snapshot of the leader. The log is shorter or
// conflicts, otherwise no snapshot would be sent, and package consensus discards it then. It
// waits for the state machine.
func (p *proc) install(from *simDisk, then func(match uint64)) {
	if p.h.holdLog {
		return
	}
	w, s := p.w, *from
	w.cover.installs++
	if s.snapAt > p.raftApplied+behindBy && p.raftApplied > 0 {
		w.cover.skips++
	}
	w.logf("%s is sent a snapshot up to %d", p.h.id, s.snapAt)
	p.store(writesSnapshot, func(d *simDisk) {
		d.base, d.baseTerm, d.baseConf, d.log, d.conf = s.snapAt, s.snapTerm, s.snapConf, nil, s.snapConf
		d.snapAt, d.snapTerm, d.snapConf, d.snap = s.snapAt, s.snapTerm, s.snapConf, s.snap
	}, func() {
		if s.snapAt > p.raftApplied {
			p.commit, p.raftApplied = max(p.commit, s.snapAt), s.snapAt
			p.setState(p.restored(s.snap))
		}
		then(s.snapAt)
	})
}

// restored decodes a snapshot.
func (p *proc) restored(snap []byte) *ack.State {
	s := p.w.birth
	if snap != nil {
		var err error
		if s, err = ack.DecodeState(snap); err != nil {
			p.w.fail("snapshot: of %s: %v", p.h.id, err)
			return p.fsm
		}
		if b, _ := s.MarshalBinary(); !bytes.Equal(b, snap) {
			p.w.fail("snapshot: %s: it does not survive being read and written", p.h.id)
		}
	}
	if s.HasOpenProposal() {
		p.w.cover.openRestores++
	}
	return s
}

// compact writes a snapshot of the applied state and removes the log before it, except for the
// given number of trailing entries.
func (p *proc) compact(trailing uint64) {
	at := p.raftApplied
	if at <= p.disk.snapAt || p.writing != nil {
		return
	}
	snap, err := p.fsm.MarshalBinary()
	if err != nil {
		p.w.fail("%s: snapshot: %v", p.h.id, err)
		return
	}
	p.store(writesSnapshot, func(d *simDisk) {
		d.snapAt, d.snapTerm, d.snapConf, d.snap = at, d.termAt(at), d.confAt(at), snap
		if at > d.base+trailing {
			d.forget(at - trailing)
		}
	}, func() {})
	p.w.cover.snapshots++
	if p.disk.base < at {
		p.w.cover.trails++
	}
	p.w.logf("%s compacts its log up to %d, %d entries trail", p.h.id, at, at-p.disk.base)
}

// advance commits the entries of the own term that a quorum has.
func (p *proc) advance() {
	if !p.leader {
		return
	}
	c := p.disk.conf
	matches := make([]uint64, 0, simHosts)
	for _, v := range c.voters {
		m := uint64(0)
		if v == p.disk.server {
			m = p.disk.last()
		}
		for i := range p.peers {
			if p.peers[i].server == v {
				m = p.peers[i].match
			}
		}
		matches = append(matches, m)
	}
	if len(matches) == 0 {
		return
	}
	slices.Sort(matches)
	n := matches[(len(matches)-1)/2]
	if n > p.commit && p.disk.termAt(n) == p.disk.term {
		p.countInherited(n)
		p.learnCommit(n)
		p.nudge()
		if !c.votes(p.disk.server) && p.confCommitted() {
			p.w.cover.leftLeaders++
			p.loseLeadership("it has no vote any more")
		}
	}
}

// countInherited counts the entries of earlier leaders that this leader commits.
func (p *proc) countInherited(n uint64) {
	for i := max(p.commit, p.disk.base) + 1; i <= n; i++ {
		switch e := p.disk.log[i-p.disk.base-1]; {
		case e.term == p.disk.term:
		case e.data != nil:
			p.w.cover.inherited++
		case e.conf != nil:
			p.w.cover.inheritedConfs++
		}
	}
}

// learnCommit allows entries up to n to be applied.
func (p *proc) learnCommit(n uint64) {
	if n <= p.commit {
		return
	}
	for i := p.commit + 1; i <= n; i++ {
		if i > p.disk.base {
			p.w.checkCommitted(i, p.disk.log[i-p.disk.base-1])
		}
	}
	p.commit = n
	p.applySoon()
}

// checkCommitted checks that no index has two committed entries.
func (w *world) checkCommitted(i uint64, e *logEntry) {
	for uint64(len(w.committed)) <= i {
		w.committed = append(w.committed, nil)
	}
	if old := w.committed[i]; old != nil && old != e {
		w.fail("G5: the log has two committed entries at %d, of terms %d and %d", i, old.term, e.term)
	}
	w.committed[i] = e
}

func (p *proc) applySoon() {
	if p.applying || p.h.holdLog || p.raftApplied >= p.commit {
		return
	}
	p.applying = true
	d := p.w.span(0, 3*time.Millisecond)
	if p.w.perMille(p.w.slow) {
		d = p.w.span(20*time.Millisecond, 800*time.Millisecond)
	}
	p.w.after(d, p, func() {
		p.applying = false
		if !p.h.holdLog {
			p.apply()
		}
	})
}

// apply applies committed entries, all or only the next few.
func (p *proc) apply() {
	n := p.commit
	if p.w.n(4) == 0 {
		n = min(n, p.raftApplied+1)
	}
	s := p.fsm
	for i := p.raftApplied + 1; i <= n; i++ {
		e := p.disk.log[i-p.disk.base-1]
		if e.commit && p.h.holdAt {
			n = i - 1
			p.h.holdLog = true
			break
		}
		if e.data != nil {
			s = p.w.stateAfter(s, i, e)
		}
	}
	p.raftApplied = n
	if s != p.fsm {
		p.setState(s)
	}
	p.applySoon()
	if p.lead != nil {
		p.lead.lookForBarrier()
	}
}

// stateAfter applies one entry.
func (w *world) stateAfter(s *ack.State, i uint64, e *logEntry) *ack.State {
	key := stateKey{s, e}
	if next := w.applied[key]; next != nil {
		return next
	}
	next, outcome, err := s.Apply(i, e.term, e.data)
	if err != nil {
		w.fail("log entry %d: %v", i, err)
		return s
	}
	w.applied[key] = next
	w.checkState(s, next, outcome, e)
	return next
}

// setState publishes a newer state to the agent and the leader loop.
func (p *proc) setState(s *ack.State) {
	p.fsm = s
	p.w.after(p.w.span(0, 4*time.Millisecond), p, p.step)
	if l := p.lead; l != nil {
		p.w.after(p.w.span(0, 4*time.Millisecond), p, func() { l.receive(nil, origin{}) })
	}
}
