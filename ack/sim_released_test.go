package ack_test

import (
	"fmt"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// releasedChecks is what the world knows of the state of shards, which apps carry from
// owner to owner. The state of a shard is how often a request has changed it; what a
// request does under an older epoch than the newest that changed or loaded it, that epoch
// fences.
type releasedChecks struct {
	changes map[shardmap.Shard]int
	changed map[shardmap.Shard]shardmap.Epoch // the newest epoch under which
	// final is how often it had been changed when an app last released it.
	final map[shardmap.Shard]int
	// exact has the disk that was told of a release, by whose it was and the ownership it
	// was told under.
	exact map[deliveredRelease]string
	// promised are the shards that a commit must pass on as released, by its epoch.
	promised map[shardmap.Epoch]map[shardmap.Shard]ack.Released
	// unordered are the nodes whose releases arrived in the turn of a commit that did not wait for
	// them: the leader can have decided on the commit before or after it received them.
	unordered map[shardmap.Epoch]shardmap.NodeID
}

// deliveredRelease is a release call to an app.
type deliveredRelease struct {
	shardEpoch
	by shardmap.NodeID
}

func newReleasedChecks() releasedChecks {
	return releasedChecks{
		changes: map[shardmap.Shard]int{}, changed: map[shardmap.Shard]shardmap.Epoch{}, final: map[shardmap.Shard]int{},
		exact: map[deliveredRelease]string{}, promised: map[shardmap.Epoch]map[shardmap.Shard]ack.Released{}, unordered: map[shardmap.Epoch]shardmap.NodeID{},
	}
}

// note returns the note for a shard: how often it was changed. Some shards have none.
func (w *world) note(s shardmap.Shard) []byte {
	if s%4 == 3 {
		return nil
	}
	return fmt.Appendf(nil, "%d/%d", s, w.changes[s])
}

// checkChange records that an app has processed a request.
func (w *world) checkChange(r *simReq) {
	if newest := max(w.changed[r.shard], w.begun[r.shard]); r.epoch < newest {
		return // fenced
	}
	w.changed[r.shard] = r.epoch
	w.changes[r.shard]++
}

// checkExact checks an acquire call that claims that the shard is as its last owner released
// it.
func (w *world) checkExact(p *proc, disk string, hs agent.HookShard) {
	if !hs.Released {
		if hs.Note != nil {
			w.fail("hooks: %s acquires shard %d with a note, and not as released", p.h.id, hs.Shard)
		}
		w.checkKeptNoteDelivered(p, hs)
		// Later releases of its own belong to this disk.
		delete(w.exact, deliveredRelease{shardEpoch{hs.Shard, hs.Epoch}, w.owner[shardEpoch{hs.Shard, hs.Epoch}]})
		return
	}
	w.cover.exact++
	w.checkNoteReceiver(p, hs)
	if p.h.hasCopy() {
		return
	}
	if n, ok := w.final[hs.Shard]; !ok || n != w.changes[hs.Shard] || string(hs.Note) != string(w.note(hs.Shard)) {
		w.fail("hooks: %s acquires shard %d of epoch %d as released with note %q: it was released after %d changes, and has had %d",
			p.h.id, hs.Shard, hs.Epoch, hs.Note, n, w.changes[hs.Shard])
	}
	o := deliveredRelease{shardEpoch{hs.Shard, hs.Epoch}, hs.From}
	if other := w.exact[o]; other != "" && other != disk {
		w.fail("hooks: shard %d of epoch %d was given to %s as released, and now to %s", hs.Shard, hs.Epoch, other, disk)
	}
	w.exact[o] = disk
}

// Deliver sends releases to the leader.
func (p *proc) Deliver(r ack.Releases) {
	w := p.w
	p.sent++
	if p.hint < 0 || p.h.noDeliver {
		w.cover.undelivered++
		return
	}
	b, _ := r.MarshalBinary()
	var got ack.Releases
	if err := got.UnmarshalBinary(b); err != nil || got.Digest() != r.Digest() {
		w.fail("releases: %v", err)
	}
	sent := origin{p.h, w.now}
	w.send(p.h, w.hosts[p.hint], func(q *proc) {
		if q.lead != nil {
			q.lead.receive(leader.ReleasesReceived{Releases: got}, sent)
		}
	})
}

// checkGivenUp checks the releases of an acknowledgement: all shards that the app has released
// since its last acquire, and all that came as released and were never acquired.
func (w *world) checkGivenUp(p *proc) {
	if p.h.app == nil {
		return
	}
	r, _ := p.machine.Releases()
	if r == nil && (p.stoppedOnce || p.h.slowCut || p.slowCutUntil > 0 && w.now-p.slowCutUntil < 100*time.Millisecond) {
		return // the time may have been over already
	}
	given := map[shardmap.Shard]ack.Released{}
	if r != nil {
		if r.Boot != p.bootNow() || r.Server != p.disk.server || r.Proposal != p.machine.Acked() {
			w.fail("hooks: %s acknowledges %d with releases for %d", p.h.id, p.machine.Acked(), r.Proposal)
		}
		for _, x := range r.Shards {
			given[x.Shard] = x
		}
	}
	m := p.table.Committed()
	for s := range shardmap.Shard(w.shards) {
		if m.Owner(s) != p.h.id || p.keepsShard(s) {
			continue
		}
		o := shardEpoch{s, m.OwnedSince(s)}
		x, ok := given[s]
		if p.released[s] == o.epoch && !ok {
			w.fail("hooks: %s acknowledges %d and forgets that shard %d of epoch %d was released", p.h.id, p.machine.Acked(), s, o.epoch)
		}
		if p.released[s] == o.epoch {
			continue
		}
		note := p.noteFor(s, o.epoch)
		if back := !p.everGot[o] && p.mayGetNote(s, o.epoch); back != ok || ok && string(note) != string(x.Note) {
			w.fail("hooks: %s acknowledges %d and gives shard %d of epoch %d back: %v, want %v", p.h.id, p.machine.Acked(), s, o.epoch, ok, back)
		}
		if ok {
			w.cover.givenBack++
		}
		from := x.From
		if from == "" {
			from = m.OwnerInstanceID(s)
		}
		if ok && from != p.releasedBy(s, o.epoch) {
			w.fail("hooks: %s gives shard %d of epoch %d back as %q's, it was %q's", p.h.id, s, o.epoch, x.From, p.releasedBy(s, o.epoch))
		}
	}
}

// releaseTimeout returns the release timeout of the node: an operator can set a longer one for a
// drain.
func (p *proc) releaseTimeout() time.Duration {
	return max(p.w.releaseTimeout, p.table.Policy().DrainOptions[p.h.id].ReleaseTimeout)
}

// checkPending checks how long a node waits for the confirmation of its releases: with an
// acknowledgement, and once more with a goodbye.
func (w *world) checkPending(p *proc) {
	r, confirmed := p.machine.Releases()
	again := p.closing && !p.parted && r != p.pending
	switch {
	case r == nil || confirmed || p.stoppedOnce:
		p.pendingFor, p.pending, p.parted, p.pendingSince, p.sent = 0, nil, false, 0, 0
		return
	case r.Proposal != p.pendingFor:
		p.pendingFor, p.pending, p.parted, p.pendingSince, p.sent = r.Proposal, r, false, p.clock(), min(p.sent, 1)
		p.pendingLimit = p.releaseTimeout()
	case again:
		p.pending, p.parted, p.pendingSince, p.sent = r, true, p.clock(), min(p.sent, 1)
		p.pendingLimit = p.releaseTimeout()
	}
	d := p.clock() - p.pendingSince
	if d > p.pendingLimit+300*time.Millisecond {
		w.fail("hooks: %s has waited for %v for the confirmation of its releases", p.h.id, d)
	}
	if d > 250*time.Millisecond && p.sent < 2 {
		w.fail("hooks: %s does not repeat its releases", p.h.id)
	}
}

// expectReleases records what the commit of an epoch must pass on: the releases of the owners
// that have acknowledged it, each by its newest heartbeat.
func (l *leaderLoop) expectReleases(e shardmap.Epoch) {
	w := l.p.w
	base, p := l.driverState().Committed(), l.driverState().Proposed()
	all := map[shardmap.Shard]ack.Released{}
	for _, member := range base.Members() {
		hb := l.beats[member.ID]
		if hb.Acked != e || hb.ReleasesDigest == [32]byte{} {
			continue
		}
		r := l.delivered[hb.ReleasesDigest]
		// Otherwise it counts by another rule than its acknowledgement, if at all.
		mustBeAwaited := p.IsMember(member.ID) && !l.driverState().Restarting(member.ID)
		if arrived, ok := l.message.(leader.ReleasesReceived); ok && arrived.Digest() == hb.ReleasesDigest && !mustBeAwaited {
			w.unordered[e] = member.ID
		}
		if r == nil {
			if mustBeAwaited {
				w.fail("hooks: %s commits %d without the releases of %s", l.p.h.id, e, member.ID)
			}
			continue
		}
		for _, x := range r.Shards {
			all[x.Shard] = x
		}
	}
	w.promised[e] = all
}

// checkPassedOn checks the releases that a commit passes on.
func (w *world) checkPassedOn(before, after *ack.State) {
	p := after.Committed()
	for _, m := range shardmap.Diff(before.Committed(), p) {
		note, server, ok := after.ReleaseNote(m.Shard)
		if !ok && m.From != "" && w.unordered[p.Epoch()] == m.From {
			continue
		}
		x, promised := w.promised[p.Epoch()][m.Shard]
		if promised = promised && m.To != "" && m.From != ""; ok != promised || ok && (string(note) != string(x.Note) || nodeOfServer(server) != m.To) {
			w.fail("hooks: %d passes shard %d on from %q to %q as released: %v, with %q for %s; want %v with %q", p.Epoch(), m.Shard, m.From, m.To, ok, note, server, promised, x.Note)
		}
		if ok {
			w.cover.passedOn++
		}
	}
}

// faultNoDeliver loses the releases of a node in transit, and nothing else.
func faultNoDeliver(w *world) bool {
	h := w.randomHost(func(h *host) bool { return h.app != nil })
	if h == nil {
		return false
	}
	w.logf("releases of %s are lost", h.id)
	h.noDeliver = true
	w.undo(w.faultDuration(), func() { h.noDeliver = false })
	return true
}
