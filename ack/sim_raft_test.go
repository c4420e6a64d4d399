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

	commit bool // data is a commit
}

// simConf is a configuration: server ids, sorted.
type simConf struct{ voters, others []string }

func (c *simConf) has(server string) bool {
	return slices.Contains(c.voters, server) || slices.Contains(c.others, server)
}

// simDisk is what a node keeps: its server's log and term, and the boot counter.
// Every write reaches it at once.
type simDisk struct {
	server string
	boot   uint64
	term   uint64 // also stands for the vote: a server votes at most when it enters a term

	base, baseTerm uint64 // the log starts after this index
	baseConf       *simConf
	snap           []byte // the state at base; nil: the state before all entries
	log            []*logEntry
	conf           *simConf // the latest in the log
}

func (d *simDisk) last() uint64 { return d.base + uint64(len(d.log)) }

func (d *simDisk) termAt(i uint64) uint64 {
	if i == d.base {
		return d.baseTerm
	}
	return d.log[i-d.base-1].term
}

// write puts entries after index i, in the place of what is there.
func (d *simDisk) write(i uint64, es ...*logEntry) {
	d.log = append(slices.Clip(d.log[:i-d.base]), es...)
	d.conf = d.baseConf
	for _, e := range d.log {
		if e.conf != nil {
			d.conf = e.conf
		}
	}
}

// raftWorld is what the model knows of the log beyond any one server.
type raftWorld struct {
	committed []*logEntry // by index; nil where not yet seen
	applied   map[stateKey]*ack.State
}

// stateKey lets servers that apply the same entry to the same state share the
// result: it is the same anyway, because State is pure.
type stateKey struct {
	before *ack.State
	entry  *logEntry
}

// peerView is what a leader knows of a server's log.
type peerView struct {
	server  string
	match   uint64
	contact time.Duration
}

// appendEntry puts an entry into the leader's log and returns its index.
func (p *proc) appendEntry(e *logEntry) uint64 {
	e.term = p.disk.term
	p.disk.write(p.disk.last(), e)
	p.nudge()
	p.advance()
	return p.disk.last()
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

// replicate is one AppendEntries or InstallSnapshot and its answer, in one
// moment; either half may get lost.
func (w *world) replicate(l *proc, h *host) {
	f := h.proc
	if !l.leader || f == nil || h.stopped || !l.disk.conf.has(h.server()) || !w.reach(l.h, h) {
		return
	}
	if f.disk.term > l.disk.term {
		if w.reach(h, l.h) {
			l.enterTerm(f.disk.term)
		}
		return
	}
	f.enterTerm(l.disk.term)
	f.contact, f.hint = w.now, l.h.i
	match := w.appendTo(l.disk, f)
	f.learnCommit(min(l.commit, match))
	if !w.reach(h, l.h) {
		return
	}
	view := &l.peers[h.i]
	if view.server != h.server() {
		*view = peerView{server: h.server()}
	}
	view.contact = w.now
	if match > view.match {
		view.match = match
		l.advance()
	}
}

// appendTo brings f's log nearer to the leader's and returns up to where they
// agree.
func (w *world) appendTo(d *simDisk, f *proc) uint64 {
	i := min(d.last(), f.disk.last())
	for i > max(d.base, f.disk.base) && d.termAt(i) != f.disk.termAt(i) {
		i--
	}
	if i < d.base || i == d.base && i >= f.disk.base && f.disk.termAt(i) != d.baseTerm {
		f.install(d)
		i = d.base
	}
	if i < f.disk.base {
		return min(f.disk.base, d.last())
	}
	n := d.last() - i
	if n > 1 && w.n(4) == 0 {
		n = 1 + uint64(w.n(int(n)))
	}
	if n > 0 {
		f.disk.write(i, d.log[i-d.base:i-d.base+n]...)
	}
	return i + n
}

// install takes the leader's snapshot in the place of the own log and state.
func (p *proc) install(d *simDisk) {
	p.disk.base, p.disk.baseTerm, p.disk.baseConf, p.disk.snap = d.base, d.baseTerm, d.baseConf, d.snap
	p.disk.log = nil
	p.disk.conf = d.baseConf
	p.w.cover.installs++
	p.w.logf("%s is sent a snapshot up to %d", p.h.id, d.base)
	if d.base > p.raftApplied {
		p.commit, p.raftApplied = max(p.commit, d.base), d.base
		p.setState(p.restored(d.snap))
	}
}

// restored decodes a snapshot.
func (p *proc) restored(snap []byte) *ack.State {
	s := p.w.birth
	if snap != nil {
		var err error
		if s, err = ack.DecodeState(snap); err != nil {
			p.w.fail("%s: snapshot: %v", p.h.id, err)
			return p.fsm
		}
		if b, _ := s.MarshalBinary(); !bytes.Equal(b, snap) {
			p.w.fail("%s: a snapshot does not survive being read and written", p.h.id)
		}
	}
	if s.Open() {
		p.w.cover.openRestores++
	}
	return s
}

// compact writes a snapshot of what is applied and forgets the log before it.
func (p *proc) compact(trailing uint64) {
	at := p.raftApplied
	if at < p.disk.base+1+trailing {
		return
	}
	// Trailing entries stay in the log, but a snapshot stands for one index: keep
	// it simple and let the snapshot be that of the present state.
	snap, err := p.fsm.MarshalBinary()
	if err != nil {
		p.w.fail("%s: snapshot: %v", p.h.id, err)
		return
	}
	conf := p.disk.baseConf
	for _, e := range p.disk.log[:at-p.disk.base] {
		if e.conf != nil {
			conf = e.conf
		}
	}
	term := p.disk.termAt(at)
	p.disk.log = slices.Clone(p.disk.log[at-p.disk.base:])
	p.disk.base, p.disk.baseTerm, p.disk.baseConf, p.disk.snap = at, term, conf, snap
	p.w.cover.snapshots++
	p.w.logf("%s compacts its log up to %d", p.h.id, at)
}

// advance commits what a quorum has, if it is of the own term.
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
		p.learnCommit(n)
		p.nudge()
	}
}

// learnCommit lets entries up to n be applied.
func (p *proc) learnCommit(n uint64) {
	if n <= p.commit {
		return
	}
	for i := p.commit + 1; i <= n; i++ {
		if i > p.disk.base {
			p.w.sawCommitted(i, p.disk.log[i-p.disk.base-1])
		}
	}
	p.commit = n
	p.applySoon()
}

// sawCommitted checks that no index has two committed entries.
func (w *world) sawCommitted(i uint64, e *logEntry) {
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

// apply takes entries that are committed, all or only the next few.
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
	w.sawState(s, next, outcome, e.commit)
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
