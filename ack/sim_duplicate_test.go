package ack_test

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Two processes under one node's id: on a disk of its own, as when a node is started
// under a name that is taken, or on a copy of the disk.
//
// Two processes with separate disks are judged like two nodes. For two copies, the check requires
// that one of them is refused, and checks the other nodes. Raft takes part in the first only: the leader puts the
// new disk in the place of the old one once that is not heard any more. The streams of a copy are
// refused by package node/diskhistory, which is not in this model; its heartbeats come all the
// same.

// addDuplicate adds a second host with the node id of another one, which does not run yet.
func (w *world) addDuplicate() {
	x := w.hosts[w.n(len(w.hosts))]
	t := &host{w: w, i: len(w.hosts), id: x.id, downFrom: 0, rate: w.clockRate(), weight: 1, absent: true, keys: x.keys, loaded: x.loaded, gateway: x.gateway, disks: 10}
	x.twin, t.twin = t, x
	w.hosts = append(w.hosts, t)
	t.flags = w.flagsOf(t)
	t.newDisk()
}

// pair returns the two hosts with the same id, nil if there are none.
func (w *world) pair() (x, double *host) {
	for _, h := range w.hosts {
		if h.twin != nil && h.i > h.twin.i {
			return h.twin, h
		}
	}
	return nil, nil
}

// hasCopy reports whether there is a copy of this disk: what runs on either is outside the
// guarantees until that is detected (docs/operate/backup-recovery.md).
func (h *host) hasCopy() bool { return h.copied || h.twin != nil && h.twin.copied }

// copiedVoter reports whether there is a copy of the disk of a voter, or was recently. It
// confirms in the name of the voter, which may have voted for another leader.
func (w *world) copiedVoter(l *leaderLoop) bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		late := h.copyEnded > 0 && w.now-h.copyEnded < w.deadAfter()
		return h.copied && l.p.disk.conf.votes(h.server()) || late && l.p.disk.conf.votes(h.twin.server())
	})
}

// ackedBy returns the newest proposal that a process of the node has acknowledged.
func (w *world) ackedBy(id shardmap.NodeID) shardmap.Epoch {
	var e shardmap.Epoch
	for _, h := range w.hosts {
		if h.id == id {
			e = max(e, w.acked[h.i])
		}
	}
	return e
}

// deadSince reports whether no process of the node has run since the given time, and no leader
// can consider one alive because of three delayed heartbeats (rule 3).
func (w *world) deadSince(id shardmap.NodeID, at time.Duration) bool {
	for _, h := range w.hosts {
		if h.id == id && (h.proc != nil || h.downFrom >= at || h.late >= 3) {
			return false
		}
	}
	return true
}

// runDuplicate lets a copy send heartbeats to the leader. Of Raft it only has the term.
func (h *host) runDuplicate() {
	for _, l := range h.w.hosts {
		if p := h.proc; l.proc != nil && l.proc.leader && l != h && l != h.twin && h.w.link[l.i][h.i] {
			h.disk.term = max(h.disk.term, l.proc.disk.term)
			p.hint, p.contact = l.i, h.w.now
			return
		}
	}
}

// diskRolledBack ends a process that the leader refuses as an older image of its disk, or a
// copy. There must be two such disks.
func (w *world) diskRolledBack(p *proc, a ack.Answer) {
	if w.plant == plantRandomBoot {
		return
	}
	if !p.h.hasCopy() && (p.h.twin == nil || p.h.twin.server() != p.h.server()) {
		w.fail("membership: %s gets the answer that its disk was rolled back, in boot %d", p.h.id, a.Boot)
		return
	}
	w.cover.rollbacks++
	w.logf("boot %d of %s is refused for good", a.Boot, p.h.id)
	p.h.crash()
	p.h.absent = true
}

// duplicatePersists is the action of an operator after a process was refused for long: of two
// processes with different disks, the one that is no member is stopped. The leader cannot
// choose, because it may need the vote of the other.
func (p *proc) duplicatePersists() {
	w, t := p.w, p.h.twin
	if c := w.newestConf(); !w.healing || t == nil || t.proc == nil || !c.has(p.h.server()) || c.has(t.server()) {
		return
	}
	w.logf("the second process of %s, which is no member, is stopped by hand", p.h.id)
	t.crash()
	t.absent = true
}

// checkName judges that a leader gives a node's name to a server, by a lease or in the
// configuration, of which the next leader knows nothing else. If the process on another
// disk is forged to be gone, what it runs is outside the guarantee, as when its shards
// are taken.
func (w *world) checkName(l *leaderLoop, id shardmap.NodeID, server string) {
	for _, h := range w.hosts {
		if h.id == id && h.server() != server && h.proc != nil && l.taken[h] && !w.strictly(l.driverState()) {
			w.cover.forgedNames++
			for _, r := range h.proc.reqs {
				r.forged = true
			}
		}
	}
}

// faultDuplicate starts a second process with the id of a node, with its own disk or a copy, while
// the first is partitioned, stopped, or briefly dead. Then another leader may be elected.
func faultDuplicate(w *world) bool {
	x, t := w.pair()
	if t == nil || !running(x) || t.proc != nil || t.copied || !w.newestConf().has(x.server()) {
		return false
	}
	t.copied = w.pick(3) == 0
	if t.copied {
		d := *x.disk
		t.disk = &d
	} else {
		t.newDisk()
	}
	t.absent = false
	w.cover.twins[map[bool]int{false: 0, true: 1}[t.copied]]++
	w.logf("scene: a second process as %s: server %s, boot %d", t.id, t.server(), t.disk.boot+1)
	if w.pick(2) == 0 {
		t.start()
	}
	apart := func() { w.cutLinks(func(i, j int) bool { return i == x.i && j != t.i || j == x.i && i != t.i }) }
	switch w.pick(5) {
	case 0:
		x.stop(w.faultDuration(), "while it has a double")
	case 1:
		x.crash()
		w.back(x, w.span(20*time.Millisecond, 900*time.Millisecond))
	case 2:
		apart()
		w.forge(w.randomHost(func(h *host) bool { return running(h) && leads(h) && h != x }), x)
	default:
		apart()
	}
	if t.proc == nil {
		w.run(w.now+w.span(0, 100*time.Millisecond), nil)
	}
	if t.proc == nil { // it may have been on its way back
		t.start()
	}
	w.run(w.now+w.span(300*time.Millisecond, 1200*time.Millisecond), nil)
	if w.pick(2) == 0 {
		faultElect(w)
	}
	w.run(w.now+w.span(200*time.Millisecond, w.deadAfter()), nil)
	return true
}

// removeCopy ends the effect of a copy: only operators can distinguish two copies.
func (w *world) removeCopy() {
	x, t := w.pair()
	if t == nil || !t.copied {
		return
	}
	if t.proc != nil {
		t.crash()
	}
	if p := x.proc; p != nil {
		for _, r := range p.reqs {
			r.forged = true
		}
		if p.bootNow() <= t.disk.boot {
			x.crash() // the leader may know the copy
		}
	}
	t.absent, t.copied, x.absent, t.copyEnded = true, false, false, w.now
	x.disk.boot = max(x.disk.boot, t.disk.boot)
	t.newDisk()
}
