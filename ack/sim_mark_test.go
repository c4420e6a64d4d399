package ack_test

import (
	"time"

	"shardway/ack"
)

// faultMark marks a node as failed, and often ends the mark later.
func faultMark(w *world) bool {
	return w.mark(w.randomHost(func(h *host) bool { return !h.absent }))
}

// faultMarkRestart marks a node as failed while it restarts in place.
func faultMarkRestart(w *world) bool {
	started := faultRestart(w)
	w.run(w.now+w.span(0, time.Second), nil)
	restarts := func(h *host) bool { return h.proc != nil && h.proc.closing || w.truth.Restarting(h.id) }
	return w.mark(w.randomHost(restarts)) || started
}

// faultMarkDrain marks a node as failed while it drains.
func faultMarkDrain(w *world) bool {
	l := w.someLeader()
	drained := w.randomHost(func(h *host) bool { return running(h) && w.truth.Committed().ShardCount(h.id) > 0 })
	if l == nil || drained == nil {
		return false
	}
	drain := ack.Change{Kind: ack.ChangeDrain, Node: drained.id, SafeDrain: w.pick(2) > 0}
	if w.pick(3) == 0 {
		drain = w.anyGradualDrain(drained.id)
	}
	if !l.proc.lead.changePolicy(drain) {
		return false
	}
	w.run(w.now+w.span(0, time.Second), nil)
	w.mark(drained)
	return true
}

// mark marks a host as failed, and often ends the mark later. h may be nil.
func (w *world) mark(h *host) bool {
	l := w.someLeader()
	if l == nil || h == nil || !l.proc.lead.changePolicy(ack.Change{Kind: ack.ChangeMarkFailed, Node: h.id}) {
		return false
	}
	if w.pick(3) == 0 {
		return true
	}
	w.run(w.now+w.faultDuration(), nil)
	if l = w.someLeader(); l != nil {
		l.proc.lead.changePolicy(ack.Change{Kind: ack.ChangeUncordon, Node: h.id})
	}
	return true
}

// checkMarks checks that a proposal for which the map changes gives no shard to a node that is marked as
// failed. Without another node, the last map remains.
func (w *world) checkMarks(before, after *ack.State) {
	if after.Proposed().HasSameOwners(before.Proposed()) {
		return
	}
	for id := range before.Policy().MarkedFailed {
		if after.Proposed().ShardCount(id) > 0 {
			w.fail("mark-failed: %d gives shards to %s", after.Proposed().Epoch(), id)
		}
	}
}

// countMarks counts the marks that a change of the policy sets and ends.
func (w *world) countMarks(was, is *ack.Policy) {
	for _, h := range w.hosts {
		switch {
		case is.MarkedFailed[h.id] && !was.MarkedFailed[h.id]:
			w.cover.marked++
		case was.MarkedFailed[h.id] && !is.MarkedFailed[h.id]:
			w.cover.unmarked++
		}
	}
}
