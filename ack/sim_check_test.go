package ack_test

import (
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// checks contains global knowledge that no node has. The invariants are checked against it
// after everything that may break one.
type checks struct {
	birth  *ack.State                     // after the first entry
	truth  *ack.State                     // the newest state that any node has applied
	acked  [simHosts]shardmap.Epoch       // by any boot
	owner  map[shardEpoch]shardmap.NodeID // by committed maps
	newest []shardmap.Epoch               // by shard: the newest ownership epoch that admitted
	did    map[uint64]entryEffect         // by index
	keyed  int                            // the newest key configuration
	dropAt map[shardmap.NodeID]time.Duration
	won    []victory
	// proposedAt is when the last proposal was first applied.
	proposedAt time.Duration
	pausedAt   time.Duration            // when the current pause was first applied
	timedAt    map[uint64]time.Duration // when the timing that an entry set was first applied
	stable     time.Duration            // since when all is well; negative: it is not
	quarantineChecks
	gradualDrainChecks
	stageChecks
	hookChecks
	restartChecks
	keptChecks
	returnChecks
	serviceChecks
}

type shardEpoch struct {
	shard shardmap.Shard
	epoch shardmap.Epoch
}

// entryEffect is the effect of an entry.
type entryEffect struct {
	outcome ack.Outcome
	state   *ack.State
}

// same reports whether two states are equal, regardless of their encoding.
func (w *world) same(a, b *ack.State) bool {
	for _, h := range w.hosts {
		da, oka := a.Drop(h.id)
		db, okb := b.Drop(h.id)
		if oka != okb || da != db {
			return false
		}
	}
	for s := range shardmap.Shard(a.Committed().Len()) {
		if a.Committed().Len() != b.Committed().Len() || a.PreviousOwner(s) != b.PreviousOwner(s) {
			return false
		}
		noteA, serverA, okA := a.ReleaseNote(s)
		noteB, serverB, okB := b.ReleaseNote(s)
		if okA != okB || kept(a, s) != kept(b, s) || serverA != serverB || string(noteA) != string(noteB) {
			return false
		}
	}
	return samePolicy(a, b) && sameServices(a, b) && w.sameReturns(a, b) && w.sameRestarts(a, b) && a.Timing() == b.Timing() && a.PreviousTiming() == b.PreviousTiming() && a.TimingIndex() == b.TimingIndex() &&
		a.Committed().Epoch() == b.Committed().Epoch() && a.Proposed().Epoch() == b.Proposed().Epoch() &&
		a.ProposedTerm() == b.ProposedTerm() && a.Proposed().Digest() == b.Proposed().Digest()
}

// victory is a won election.
type victory struct {
	term uint64
	at   time.Duration
}

func newChecks() checks {
	return checks{
		owner:  map[shardEpoch]shardmap.NodeID{},
		did:    map[uint64]entryEffect{},
		dropAt: map[shardmap.NodeID]time.Duration{}, timedAt: map[uint64]time.Duration{},
		stable: -1, gradualDrainChecks: newGradualDrainChecks(), stageChecks: newStagingChecks(), hookChecks: newHookChecks(), restartChecks: newRestartChecks(), keptChecks: newKeptChecks(),
	}
}

// checkState checks the effect of an entry when the first node applies it. Every node that
// applies it later, also to a state from a snapshot, must get the same result.
func (w *world) checkState(before, after *ack.State, outcome ack.Outcome, e *logEntry) {
	i := after.Index()
	if first := w.did[i]; first.outcome != 0 {
		if first.outcome != outcome || !w.same(first.state, after) {
			w.fail("G5: entry %d came to one state (%d) on one node and to another (%d) on another", i, first.outcome, outcome)
		}
		return
	}
	w.did[i] = entryEffect{outcome, after}
	w.truth = after
	switch outcome {
	case ack.OutcomeProposed:
		w.checkProposal(before, after)
		w.checkRoles(before, after, e)
		w.checkPlacement(before, after, e)
		w.checkProposedKeys(before, after)
		w.checkMarks(before, after)
		w.checkReturns(before, after)
	case ack.OutcomeCommitted:
		w.checkCommit(before, after)
	case ack.OutcomeIgnored:
		w.logf("log: the entry at %d is void", after.Index())
		w.cover.voids++
		if e.commit {
			w.cover.voidCommits++
		}
	case ack.OutcomeTimingChanged:
		w.checkTiming(after)
	case ack.OutcomePolicyChanged:
		w.checkAmendment(before, after, e)
	case ack.OutcomeRestartChanged:
		w.checkRestartEntry(before, after, e)
	case ack.OutcomeAppsReported:
		w.checkAppReport(after, e)
	case ack.OutcomeBootstrapped:
		w.checkBootstrap(before, after)
	case ack.OutcomeRegistry: // the simulation has no registry
	case ack.OutcomeFormatVersionRaised, ack.OutcomeJoinChanged: // there is one level, and no join request
	}
}

func (w *world) checkProposal(before, after *ack.State) {
	p := after.Proposed()
	w.logf("log: %d proposes %s%s", p.Epoch(), spread(p), drops(after))
	if p.Epoch() <= before.Proposed().Epoch() {
		w.fail("epochs: %d was proposed after %d", p.Epoch(), before.Proposed().Epoch())
	}
	if moved := len(shardmap.Diff(before.Committed(), p)); w.quiet && moved > 0 && before.Committed().Epoch() > 0 {
		w.fail("rule 4: an election alone, or a restart in place, moves %d shards", moved)
	}
	if len(p.Members()) == 0 {
		w.fail("rule 10: %d has no members", p.Epoch())
	}
	for _, m := range p.Members() {
		if at, ok := w.dropAt[m.ID]; ok && before.IsDropped(m.ID) && w.deadSince(m.ID, at) {
			w.fail("G4: %s was dropped, is dead since before, and is proposed again", m.ID)
		}
		if !before.Proposed().IsMember(m.ID) && !before.Restarting(m.ID) && w.ackedBy(m.ID) < before.Committed().Epoch() {
			w.fail("rule 3: %s is proposed, has acknowledged %d, and %d is committed", m.ID, w.ackedBy(m.ID), before.Committed().Epoch())
		}
	}
	w.checkServices(after, p)
	w.checkDrops(before, after)
	w.checkRestarting(before, after)
}

// checkDrops checks which nodes a proposal drops.
func (w *world) checkDrops(before, after *ack.State) {
	p := after.Proposed()
	nobody := true // has acknowledged the proposal before
	for _, m := range before.Proposed().Members() {
		nobody = nobody && w.ackedBy(m.ID) < before.Proposed().Epoch()
	}
	for _, h := range w.hosts {
		if d, ok := after.Drop(h.id); ok && d.InForce && d.Epoch == p.Epoch() {
			w.dropAt[h.id] = w.now
			if since := w.now - max(w.proposedAt, w.backAt[h.id]); d.Cause == ack.CauseMissedAck && since < (w.pace.AckDeadline()+w.releaseTime(h))*9/10 {
				w.fail("rule 1: %s is dropped for not acknowledging %d within %v", h.id, before.Proposed().Epoch(), since)
			}
			if d.Cause == ack.CauseMissedAck && nobody {
				w.fail("map change: %s is dropped for a missing acknowledgement of %d, which no node has acknowledged", h.id, before.Proposed().Epoch())
			}
			if d.ConsecutiveDrops > 1 {
				w.cover.damped++
			}
		}
	}
	w.proposedAt = w.now
}

func (w *world) checkCommit(before, after *ack.State) {
	old, p := before.Committed(), after.Committed()
	w.logf("log: %d is committed", p.Epoch())
	w.cover.commits++
	w.checkKeys(before, after)
	if p.Epoch() <= old.Epoch() {
		w.fail("epochs: %d was committed after %d", p.Epoch(), old.Epoch())
	}
	for _, m := range p.Members() {
		if before.Restarting(m.ID) && w.sameShards(old, p, m.ID) {
			w.cover.without++
			continue // the exception of G4
		}
		if acked := w.ackedBy(m.ID); acked < p.Epoch() {
			w.fail("G4: %d is committed, %s has acknowledged %d", p.Epoch(), m.ID, acked)
		}
	}
	for _, h := range w.hosts {
		if p.IsMember(h.id) || old.ShardCount(h.id) == 0 || h.hasCopy() {
			continue
		}
		// Acknowledgements of an earlier boot do not count for this one.
		if q := h.proc; q != nil && q.machine.Acked() < p.Epoch() && q.clock() < q.until && w.now >= q.forgedUntil {
			w.fail("G4: %d is committed, %s has not acknowledged and may still serve", p.Epoch(), h.id)
		}
	}
	for s := range shardmap.Shard(w.shards) {
		w.checkOwner(old, p, s)
	}
	w.checkServices(after, p)
	w.countServiceMoves(old, p)
	w.checkInstances(old, p)
	w.checkPassedOn(before, after)
}

// checkOwner checks the ownership epoch of one shard in a map just committed.
func (w *world) checkOwner(old, p *shardmap.Map, s shardmap.Shard) {
	owner, since := p.OwnerInstanceID(s), p.OwnedSince(s)
	switch {
	case owner == "":
	case owner == old.OwnerInstanceID(s) && since != old.OwnedSince(s):
		w.fail("G10: the ownership epoch of shard %d went from %d to %d, its owner %s stayed", s, old.OwnedSince(s), since, owner)
	case owner != old.OwnerInstanceID(s) && (since != p.Epoch() || since <= old.OwnedSince(s)):
		w.fail("G10: shard %d went to %s with ownership epoch %d; the map's is %d, it was %d", s, owner, since, p.Epoch(), old.OwnedSince(s))
	}
	w.owner[shardEpoch{s, since}] = owner
	w.checkSuccession(p, s)
}

// checkTable checks the new routing of a node.
func (w *world) checkTable(p *proc) {
	old := p.machine.State()
	if p.table.Committed().Epoch() < old.Committed().Epoch() || p.table.Proposed().Epoch() < old.Proposed().Epoch() {
		w.fail("epochs: %s goes back from %d and %d to %d and %d", p.h.id, old.Committed().Epoch(), old.Proposed().Epoch(),
			p.table.Committed().Epoch(), p.table.Proposed().Epoch())
	}
	w.checkServing(p)
}

// wouldAdmit reports whether the node would admit a request for s now.
func (p *proc) wouldAdmit(s shardmap.Shard) bool {
	_, ok := p.owns(s)
	return ok && !p.dead && !p.h.stopped && p.clock() < p.until
}

// checkServing is the first half of G1. Only what changes for p can break it.
func (w *world) checkServing(p *proc) {
	if p == nil || p.clock() >= p.until {
		return
	}
	for _, h := range w.hosts {
		q := h.proc
		if q == nil || q == p || h.stopped || q.clock() >= q.until {
			continue
		}
		for s := range shardmap.Shard(w.shards) {
			if !p.wouldAdmit(s) || !q.wouldAdmit(s) {
				continue
			}
			if p.h.hasCopy() || h.hasCopy() {
				w.cover.excusedCopies++
				continue
			}
			if w.now < p.forgedUntil || w.now < q.forgedUntil {
				w.cover.excusedAdmits++
				continue
			}
			w.fail("G1: %s and %s both admit requests for shard %d", p.h.id, h.id, s)
		}
	}
}

// checkAdmission judges an admission: only a committed map routes (G3), the
// ownership epoch grows (G10), and no other node runs the shard (G1).
func (w *world) checkAdmission(p *proc, r *simReq) {
	r.forged = w.now < p.forgedUntil || p.h.hasCopy()
	if owner := w.owner[shardEpoch{r.shard, r.epoch}]; owner != shardmap.InstanceID(p.h.id, r.instance) {
		w.fail("G3: %s admits for shard %d with ownership epoch %d, which no committed map gave it (%q)", p.h.id, r.shard, r.epoch, owner)
	}
	if r.epoch < w.newest[r.shard] && !r.forged {
		w.fail("G10: %s admits for shard %d with ownership epoch %d after %d", p.h.id, r.shard, r.epoch, w.newest[r.shard])
	}
	w.newest[r.shard] = max(w.newest[r.shard], r.epoch)
	w.checkPause(p, r)
	w.checkAlone(p, r)
	w.checkOneReading(p, r)
}

// checkPause is G11 with rebalance mode stop-the-world.
func (w *world) checkPause(p *proc, r *simReq) {
	s := p.table
	if s.Timing().RebalanceMode != ack.RebalanceStopTheWorld {
		return
	}
	w.cover.pausedCluster++
	if term := p.machine.LeaseTerm(); s.HasOpenProposal() || term != s.ProposedTerm() {
		w.fail("G11: %s admits for shard %d while the cluster pauses: map %d of term %d is open: %v, its lease is of term %d",
			p.h.id, r.shard, s.Proposed().Epoch(), s.ProposedTerm(), s.HasOpenProposal(), term)
	}
}

// checkRun judges the first byte that goes to the app.
func (w *world) checkRun(p *proc, r *simReq) {
	if r.epoch < w.newest[r.shard] && !r.forged && !r.late {
		w.fail("G10: %s runs a request for shard %d with ownership epoch %d after %d", p.h.id, r.shard, r.epoch, w.newest[r.shard])
	}
	w.checkAlone(p, r)
	w.checkOneReading(p, r)
}

// checkAlone is the second half of G1, with its two exceptions.
func (w *world) checkAlone(p *proc, r *simReq) {
	for _, h := range w.hosts {
		q := h.proc
		if q == nil {
			continue
		}
		for _, other := range q.reqs {
			if other.shard != r.shard || !other.running || other.cut || q == p && other.instance == r.instance {
				continue
			}
			switch {
			case p.h.hasCopy() || h.hasCopy():
				w.cover.excusedCopies++
			case r.forged || other.forged:
				w.cover.excusedForged++
			case r.late || other.late || q.excusedByStop():
				w.cover.excusedStops++
			default:
				w.fail("G1: %s takes a request for shard %d of epoch %d while %s runs one of epoch %d", p.h.id, r.shard, r.epoch, h.id, other.epoch)
			}
		}
	}
}

// excusedByStop reports that what the node runs has outlived its time only
// because the process is stopped, or has not come to cutting it since.
func (p *proc) excusedByStop() bool {
	return (p.h.stopped || !p.looked) && p.clock() >= p.machine.AbortAt()
}

// takenByEvidence notes that a node's shards are taken by evidence. If that was
// forged, the node lives: what it runs is outside the guarantee, and so is, if
// the refusal was taken at its word, what it admits until its lease ends.
func (w *world) takenByEvidence(l *leaderLoop, id shardmap.NodeID, how string) {
	if w.strictly(l.driverState()) {
		return
	}
	for _, h := range w.hosts {
		p := h.proc
		// To a leader that has not heard the node it says the same of either process.
		if h.id != id || p == nil || !l.taken[h] && (h.twin == nil || !l.taken[h.twin]) {
			continue
		}
		w.cover.forgedTakeovers++
		for _, r := range p.reqs {
			r.forged = true
		}
		for _, c := range p.calls {
			c.forged = true
		}
		if how == "refusal" {
			lease := max(l.driverState().Timing().Lease, l.driverState().PreviousTiming().Lease)
			p.forgedUntil = w.now + lease + lease/10
		}
	}
}

// checkReply is G5 and "Leases" of docs/internals/protocol-leases.md: which nodes get OK, which
// nodes get a lease, and that no lease outlives the next election by more than a lease.
func (w *world) checkReply(l *leaderLoop, m leader.HeartbeatReceived, sent time.Duration, a ack.Answer) {
	if a.Refusal != 0 {
		return
	}
	w.checkSpeak(m, a)
	last, committed := l.driverState().Proposed().Epoch(), l.driverState().Committed().Epoch()
	if a.OK != (m.Acked == last) || a.Epoch != last {
		w.fail("G5: %s acknowledged %d, the last is %d: answer OK %v, epoch %d", m.Node, m.Acked, last, a.OK, a.Epoch)
	}
	if a.ServeFor <= 0 {
		return
	}
	w.cover.leases++
	w.checkName(l, m.Node, m.Server)
	if m.Acked < committed || m.Acked == 0 || m.Goodbye || m.Gateway {
		w.fail("G5: %s acknowledged %d and gets a lease; the committed map is %d", m.Node, m.Acked, committed)
	}
	for _, v := range w.won {
		if lease := l.driverState().Timing().Lease; v.term > l.term && !w.copiedVoter(l) && sent-v.at+a.ServeFor > lease+lease/10 {
			w.fail("G2: the leader of term %d grants %v from %v after term %d began", l.term, a.ServeFor, sent-v.at, v.term)
		}
	}
}

// serving reports whether all nodes that can serve do, and no request waits.
func (w *world) serving() bool {
	if w.truth.HasOpenProposal() || !w.orphansExpected(w.truth.Committed()) {
		return false
	}
	m := w.truth.Committed()
	for _, h := range w.hosts {
		if h.stuck() && (!m.IsMember(h.id) || h.twin != nil) || h.serves(m) || h.twin != nil && h.twin.serves(m) {
			continue
		}
		return false
	}
	return true
}

// serves reports whether the host's process does its part.
func (h *host) serves(m *shardmap.Map) bool {
	p := h.proc
	if p == nil || p.table.Committed().Epoch() != m.Epoch() || p.table.Proposed().Epoch() != m.Epoch() {
		return false
	}
	return h.gateway || (m.IsMember(h.id) != h.drained() || h.keepsShards() && !h.w.truth.Policy().MarkedFailed[h.id]) && p.clock() < p.until && !h.stopped && p.machine.Acked() >= m.Epoch() && h.acquiredAll(m)
}

// settled reports that all has been well for a while.
func (w *world) settled(d time.Duration) bool {
	if !w.serving() {
		w.stable = -1
		return false
	}
	if w.stable < 0 {
		w.stable = w.now
	}
	return w.now-w.stable >= d
}

// stuck reports that the host is not expected to serve even after all faults
// that end have ended.
func (h *host) stuck() bool {
	return h.absent || h.hasInstanceFault() || h.holdLog || h.holdAt || h.deaf || h.mute || h.unhealthy || h.stopped || h.proc == nil && h.w.healing && h.lost
}
