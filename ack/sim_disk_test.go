package ack_test

import (
	"slices"
	"time"
)

// simDisk is what a node keeps: its server's term, vote, log and snapshot, and the
// boot counter.
//
// As in the library and in package node/disk, what one message makes a server
// write reaches the disk, synced, before anything of it is said or remembered; the
// term, the vote (both halves at once) and the entries are one such write each.
// Synced holds the disk as a power failure would leave it, if a mutant is planted
// that leaves out the syncing.
type simDisk struct {
	server string
	boot   uint64
	// instance is the last one of the app that a process knew.
	instances [simInstances]string // by app instance
	term      uint64
	vote      ballot // the last one given

	base, baseTerm uint64 // the log starts after this index
	baseConf       *simConf
	log            []*logEntry
	conf           *simConf // the latest in the log

	snapAt, snapTerm uint64 // at or after base
	snapConf         *simConf
	snap             []byte // the state at snapAt; nil: the one that the world began with

	synced *simDisk
}

// ballot is a vote: the candidate and the term.
type ballot struct {
	term uint64
	who  string
}

// initFounder makes the disk that of a founding server of a cluster whose log has the given number
// of entries.
func (d *simDisk) initFounder(c *simConf, entries uint64) {
	d.term, d.base, d.baseTerm, d.baseConf, d.conf = 1, entries, 1, c, c
	d.snapAt, d.snapTerm, d.snapConf = entries, 1, c
}

func (d *simDisk) last() uint64 { return d.base + uint64(len(d.log)) }

func (d *simDisk) termAt(i uint64) uint64 {
	if i == d.base {
		return d.baseTerm
	}
	return d.log[i-d.base-1].term
}

// put writes entries after index i and replaces those that are there.
func (d *simDisk) put(i uint64, es ...*logEntry) {
	d.log = append(slices.Clip(d.log[:i-d.base]), es...)
	d.conf = d.confAt(d.last())
}

// confAt returns the latest configuration in the log up to index i.
func (d *simDisk) confAt(i uint64) *simConf {
	for _, e := range slices.Backward(d.log[:i-d.base]) {
		if e.conf != nil {
			return e.conf
		}
	}
	return d.baseConf
}

// forget drops the log up to index i.
func (d *simDisk) forget(i uint64) {
	d.baseTerm, d.baseConf = d.termAt(i), d.confAt(i)
	d.log = slices.Clone(d.log[i-d.base:])
	d.base = i
}

// written is the kind of Raft data in a write.
type written uint8

const (
	writesTerm written = iota
	writesVote
	writesLog
	writesSnapshot
)

// writing is a write in progress. The single goroutine of Raft waits for it.
type writing struct {
	what   written
	change func(d *simDisk)
	then   func()
}

// hangsAfter is how long a write may take before a leader is cut off by its own
// node, so that another can lead: the write timeout of package node/disk.
const hangsAfter = 2 * time.Second

// store changes the disk, and calls then once the change is synced: at once, unless the disk
// is slow. The caller is the goroutine of Raft, and returns.
func (p *proc) store(what written, change func(d *simDisk), then func()) {
	h, w := p.h, p.w
	if !h.hasFaultyDisk() {
		p.disk.do(w, what, change)
		then()
		return
	}
	if p.writing != nil {
		panic("a write begins while another is under way")
	}
	mine := &writing{what, change, then}
	p.writing = mine
	if w.perMille(h.diskFails) {
		w.cover.failedWrites++
		w.logf("%s cannot write and ends", h.id)
		w.after(0, p, h.crash)
		return
	}
	d := w.span(h.diskSlow/20, h.diskSlow)
	if h.diskHangs > w.now {
		d = max(d, h.diskHangs-w.now)
		w.cover.hungWrites++
	} else {
		w.cover.slowWrites++
	}
	w.after(d, p, func() { p.writeDone(mine) })
	if d > hangsAfter {
		w.after(hangsAfter, p, func() { p.isolateLeader(mine) })
	}
}

// hasFaultyDisk reports whether writes may take long or fail.
func (h *host) hasFaultyDisk() bool {
	return h.diskSlow > 0 || h.diskFails > 0 || h.diskHangs > h.w.now
}

// do changes the disk.
func (d *simDisk) do(w *world, what written, change func(d *simDisk)) {
	lost := w.plant == plantVoteNotSynced && what == writesVote || w.plant == plantLogNotSynced && what == writesLog
	switch {
	case !lost:
		d.synced = nil
	case d.synced == nil:
		was := *d
		d.synced = &was
	}
	change(d)
}

// writeDone ends a write, and continues the Raft work that waited for it.
func (p *proc) writeDone(mine *writing) {
	if p.writing != mine {
		return
	}
	p.writing = nil
	if p.isolated {
		p.isolated = false
		p.w.logf("the disk of %s answers again", p.h.id)
		if p.leader {
			p.hint = p.h.i
		}
	}
	p.disk.do(p.w, mine.what, mine.change)
	mine.then()
	for p.writing == nil && len(p.waiting) > 0 && !p.dead {
		next := p.waiting[0]
		p.waiting = p.waiting[1:]
		next()
	}
}

// isolateLeader stops the messages of a leader to other voters while its write hangs, because its
// heartbeats would prevent an election.
func (p *proc) isolateLeader(mine *writing) {
	if p.writing != mine || !p.leader {
		return
	}
	p.isolated, p.hint = true, -1
	p.w.cover.cutOffs++
	p.w.logf("%s leads, its disk hangs, and it cuts itself off", p.h.id)
}

// raft runs f on the goroutine of Raft: at once, or after the write in progress. Messages that
// arrive meanwhile wait in the connection, which has a bounded buffer.
func (p *proc) raft(f func()) {
	switch {
	case p.writing == nil:
		f()
	case len(p.waiting) < 8:
		p.w.cover.waited++
		p.waiting = append(p.waiting, f)
	}
}

// raftAccepts reports whether Raft accepts an entry now.
func (p *proc) raftAccepts() bool { return p.leader && p.writing == nil }

// tearWrite ends a process in the middle of a write: the data is on disk or not.
func (p *proc) tearWrite() {
	if p.writing == nil {
		return
	}
	p.w.cover.torn++
	if p.w.n(2) == 0 {
		p.disk.do(p.w, p.writing.what, p.writing.change)
	}
}

// losePower is a power failure: unsynced data is lost.
func (d *simDisk) losePower(w *world) {
	boot := d.boot // it has a file of its own
	if d.synced != nil {
		*d = *d.synced
	}
	if d.boot = boot; w.plant == plantBootNotSynced && w.n(2) == 0 {
		d.boot--
	}
}

// restoreDisk makes disk writes immediate again.
func (h *host) restoreDisk() {
	h.diskSlow, h.diskFails, h.diskHangs = 0, 0, 0
	if p := h.proc; p != nil && p.writing != nil {
		mine := p.writing
		h.w.after(0, p, func() { p.writeDone(mine) })
	}
}

// faultDisk makes a disk slow, or makes writes hang or fail sometimes.
func faultDisk(w *world) bool {
	h := w.anyone()
	if h == nil || h.hasFaultyDisk() {
		return false
	}
	d := w.faultDuration()
	switch w.pick(4) {
	case 0:
		d += w.span(0, 2*hangsAfter)
		h.diskHangs = w.now + d
		w.logf("the disk of %s hangs", h.id)
	case 1:
		h.diskSlow, h.diskFails = w.span(time.Millisecond, 50*time.Millisecond), 100+w.pick(4)*100
		w.logf("the disk of %s fails %d writes in a thousand", h.id, h.diskFails)
	default:
		h.diskSlow = w.span(time.Millisecond, 400*time.Millisecond)
		w.logf("the disk of %s takes up to %v", h.id, h.diskSlow.Round(time.Millisecond))
	}
	w.undo(d, h.restoreDisk)
	return true
}

// faultHang makes the disk of the leader hang for longer than its node tolerates, while there
// is data to write.
func faultHang(w *world) bool {
	l := w.randomHost(func(h *host) bool { return running(h) && h.proc.raftAccepts() && leads(h) })
	if l == nil {
		return false
	}
	d := hangsAfter + w.span(200*time.Millisecond, 3*time.Second)
	w.logf("scene: the disk of %s, which leads, hangs for %v", l.id, d.Round(time.Millisecond))
	l.diskHangs = w.now + d
	w.undo(d, l.restoreDisk)
	faultUnhealthy(w)
	w.run(w.now+w.span(hangsAfter, d+500*time.Millisecond), nil)
	return true
}

// faultPower cuts the power of one machine: other nodes do not detect the end of its process
// until it is back, and unsynced data is lost.
func faultPower(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	w.blackout(h)
	w.back(h, w.faultDuration())
	return true
}

func (w *world) blackout(h *host) {
	w.logf("%s has no power any more", h.id)
	w.cover.blackouts++
	h.endProcess()
	h.disk.losePower(w)
}

// faultOutage cuts the power of all machines at once.
func faultOutage(w *world) bool {
	hit := false
	for _, h := range w.hosts {
		if h.proc != nil {
			w.blackout(h)
			w.back(h, w.span(10*time.Millisecond, 900*time.Millisecond))
			hit = true
		}
	}
	return hit
}
