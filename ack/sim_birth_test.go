package ack_test

import (
	"time"

	"shardway/ack"
	"shardway/ack/leader"
)

// The birth of a cluster: one node founds it, alone, and adds the others; its first
// entry, which names the cluster and its timing, may be late, refused or lost with
// its leader, and another leader's may come as well.

// initEmpty begins with empty disks. The first host bootstraps the cluster, as package node
// decides; the others wait to be added.
func (w *world) initEmpty() {
	w.birth = ack.NewState()
	w.truth = w.birth
	w.first = &simConf{voters: []string{w.hosts[0].server()}}
	for _, h := range w.hosts {
		h.newDisk()
		h.absent = h.absent && h.i > 0
	}
	w.after(w.span(0, 20*time.Millisecond), nil, w.bootstrapFirst)
}

// bootstrapFirst bootstraps the first server, unless that has happened. It retries if the
// process is killed before it is complete.
func (w *world) bootstrapFirst() {
	h := w.hosts[0]
	switch p := h.proc; {
	case h.disk.base > 0 || len(h.disk.conf.voters) > 0:
		return
	case p == nil || h.stopped || p.writing != nil:
	case w.pick(4) == 0:
		w.cover.failedBootstraps++
		w.logf("%s is killed before it has founded anything", h.id)
		h.crash()
		w.back(h, w.span(10*time.Millisecond, 200*time.Millisecond))
	default:
		w.first = &simConf{voters: []string{h.server()}}
		first := w.first
		p.store(writesLog, func(d *simDisk) { d.initFounder(first, 1) }, func() {
			w.logf("%s founds a cluster", h.id)
			p.commit, p.raftApplied = 1, 1
			p.campaign("the founder")
		})
	}
	w.after(w.span(20*time.Millisecond, 80*time.Millisecond), nil, w.bootstrapFirst)
}

// bootstrap submits the bootstrap entry, if the log has none, once the barrier is applied, and
// only then reports the barrier to the driver. The driver repeats what Raft refuses.
func (l *leaderLoop) bootstrap() {
	p, w := l.p, l.p.w
	if l.over {
		return
	}
	if p.fsm.Bootstrapped() {
		l.receive(leader.BarrierApplied{}, origin{})
		return
	}
	entry := ack.EncodeBootstrap(string(p.h.id)+"'s", w.shards, p.h.flags)
	d := w.span(0, time.Millisecond)
	if w.perMille(w.lateSubmit) {
		d = w.span(5*time.Millisecond, 2500*time.Millisecond)
		w.cover.lateBootstraps++
	}
	w.after(d, p, func() {
		if !p.raftAccepts() || w.perMille(w.lateSubmit/2) {
			w.cover.failedBootstraps++
			w.logf("%s could not submit a birth", p.h.id)
			w.after(w.span(0, 300*time.Millisecond), p, func() { l.receive(leader.BarrierFailed{}, origin{}) })
			return
		}
		i := p.appendEntry(&logEntry{data: entry})
		w.logf("%s appends a birth at %d", p.h.id, i)
		l.awaitApplied(i)
	})
}

// awaitApplied continues once the entry at index i is applied here, of any leader.
func (l *leaderLoop) awaitApplied(i uint64) {
	p := l.p
	p.w.after(p.w.span(time.Millisecond, 10*time.Millisecond), p, func() {
		switch {
		case l.over:
		case p.raftApplied < i:
			l.awaitApplied(i)
		default:
			l.bootstrap()
		}
	})
}

// checkBootstrap checks that a cluster is bootstrapped once.
func (w *world) checkBootstrap(before, after *ack.State) {
	w.logf("log: %d is the birth of %q, timing %+v", after.Index(), after.ClusterID(), after.Timing())
	w.cover.bootstraps++
	if before.Bootstrapped() {
		w.fail("bootstrap: %q was born, and is born again as %q", before.ClusterID(), after.ClusterID())
	}
}
