package ack_test

import (
	"fmt"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/shardmap"
)

// Checks the notes that a process which restarts in place leaves to the next process on its disk,
// and to no other process.

// keptChecks is global knowledge about releases of nodes that restart in place.
type keptChecks struct {
	// keeping is what the leader of a term had of a boot when it told the log of its
	// absence.
	keeping map[announcedRestart]*ack.Releases
	// parting is when the leader of a term received the goodbye of a boot.
	parting map[announcedRestart]time.Duration
	// kept is the process that released a shard for its restart in place, by the ownership.
	kept map[shardEpoch]keptBy
}

// announcedRestart identifies a restart entry that a leader submits.
type announcedRestart struct {
	speakingBoot
	term uint64
}

// keptBy is a process that has released a shard in place. asGot: it has never served the
// shard.
type keptBy struct {
	server string
	boot   uint64
	asGot  bool
}

func newKeptChecks() keptChecks {
	return keptChecks{keeping: map[announcedRestart]*ack.Releases{}, parting: map[announcedRestart]time.Duration{}, kept: map[shardEpoch]keptBy{}}
}

// announceKept records which releases the submitted restart entry must contain.
func (l *leaderLoop) announceKept(node shardmap.NodeID) {
	hb := l.beats[node]
	k := announcedRestart{speakingBoot{node, hb.Boot}, l.term}
	l.p.w.keeping[k] = nil
	if hb.ReleasesDigest == [32]byte{} {
		return
	}
	r := l.delivered[hb.ReleasesDigest]
	l.p.w.keeping[k] = r
	if r == nil {
		l.p.w.cover.keptNothing++
		l.p.w.logf("%s does not have the kept notes of %s", l.p.h.id, node)
		if waited := l.p.w.now - l.p.w.parting[k]; waited < min(hb.ReleaseTime/8, time.Second) && l.losingNode() == "" && !l.moving() {
			l.p.w.fail("hooks: %s writes a restart entry %v after the goodbye of %s without its kept notes", l.p.h.id, waited, node)
		}
	}
}

// leaveNoticeReceived records when a goodbye that announces a return was first received.
func (l *leaderLoop) leaveNoticeReceived(hb ack.Heartbeat) {
	k := announcedRestart{speakingBoot{hb.Node, hb.Boot}, l.term}
	if _, known := l.p.w.parting[k]; !known && hb.Goodbye {
		l.p.w.parting[k] = l.p.w.now
	}
}

// checkKept checks the kept notes in the state of a restarting node.
func (w *world) checkKept(h *host, boot, term uint64, after *ack.State) {
	r := w.keeping[announcedRestart{speakingBoot{h.id, boot}, term}]
	promised := map[shardmap.Shard]ack.Released{}
	if r != nil {
		for _, x := range r.Shards {
			promised[x.Shard] = x
		}
	}
	m := after.Committed()
	for s := range m.Shards(h.id) {
		x, want := promised[s]
		want = want && m.OwnedSince(s) <= r.Proposal
		k, ok := after.KeptRelease(s)
		if !ok && want {
			// What the node said for a later proposal came before the heartbeat that
			// acknowledges that one: the leader has neither. The next process is told less.
			w.cover.keptNothing++
			continue
		}
		if ok != want || ok && (k.Boot != boot || k.PassedOn != (x.From != "") || k.Server != r.Server || string(k.Note) != string(x.Note)) {
			w.fail("hooks: %s is absent, and keeps shard %d as released: %v, by boot %d with %q for %s; want %v, by %d with %q",
				h.id, s, ok, k.Boot, k.Note, k.Server, want, boot, x.Note)
		}
		if ok {
			w.cover.kept++
			w.kept[shardEpoch{s, m.OwnedSince(s)}] = keptBy{r.Server, boot, k.PassedOn}
		}
	}
}

// isNextProcess reports whether the process is the one after a restart in place of the owner,
// on the same disk, and its log contains the restart.
func (p *proc) isNextProcess(s shardmap.Shard, epoch shardmap.Epoch) bool {
	known, in := p.table.KeptRelease(s)
	k := p.w.kept[shardEpoch{s, epoch}]
	return in && known.Boot == k.boot && k.server == p.disk.server && k.boot+1 == p.bootNow()
}

// gotAsReleased reports whether a shard came as released to this process.
func (p *proc) gotAsReleased(s shardmap.Shard, epoch shardmap.Epoch) bool {
	_, server, came := p.table.ReleaseNote(s)
	return came && server == p.disk.server && p.firstLease > 0 && epoch > p.firstLease
}

// mayGetNote reports whether the process may get the note of a shard, if it has not acquired
// the shard.
func (p *proc) mayGetNote(s shardmap.Shard, epoch shardmap.Epoch) bool {
	return p.isNextProcess(s, epoch) || p.gotAsReleased(s, epoch)
}

// releasedBy returns the node whose release the process gets, or passes on.
func (p *proc) releasedBy(s shardmap.Shard, epoch shardmap.Epoch) shardmap.NodeID {
	if p.isNextProcess(s, epoch) && !p.w.kept[shardEpoch{s, epoch}].asGot {
		return p.w.owner[shardEpoch{s, epoch}]
	}
	return p.w.follows[shardEpoch{s, epoch}]
}

// noteFor returns the note that the process may get.
func (p *proc) noteFor(s shardmap.Shard, epoch shardmap.Epoch) []byte {
	if k, _ := p.table.KeptRelease(s); p.isNextProcess(s, epoch) {
		return k.Note
	}
	note, _, _ := p.table.ReleaseNote(s)
	return note
}

// checkNoteReceiver checks that only the process that gained a shard gets its note, and the first
// one after a restart in place.
func (w *world) checkNoteReceiver(p *proc, hs agent.HookShard) {
	switch k := w.kept[shardEpoch{hs.Shard, hs.Epoch}]; {
	case p.h.hasCopy() || p.gotAsReleased(hs.Shard, hs.Epoch):
	case p.isNextProcess(hs.Shard, hs.Epoch):
		w.cover.exactInPlace++
	default:
		w.fail("hooks: boot %d on %s gets shard %d of epoch %d as released; boot %d on %s released it in place", p.bootNow(), p.disk.server, hs.Shard, hs.Epoch, k.boot, k.server)
	}
}

// checkKeptNoteDelivered checks that the process after a restart in place gets the notes of the
// previous one, even if its log was behind when it got its lease.
func (w *world) checkKeptNoteDelivered(p *proc, hs agent.HookShard) {
	o := shardEpoch{hs.Shard, hs.Epoch}
	if k, ok := w.kept[o]; ok && !p.h.hasCopy() && !p.everGot[o] && k.server == p.disk.server && k.boot+1 == p.bootNow() {
		w.fail("hooks: boot %d on %s acquires shard %d of epoch %d as not released, and the previous boot has released it", p.bootNow(), p.disk.server, hs.Shard, hs.Epoch)
	}
}

// checkReleasesAtStop checks the releases of a stopping process for the next one: all that its app
// has released, and those that it got and never acquired.
func (w *world) checkReleasesAtStop(p *proc) {
	if p.h.app == nil || p.back == 0 {
		return
	}
	r, confirmed := p.machine.Releases()
	if r == nil && (p.stoppedOnce || p.h.slowCut || p.h.noDeliver || !confirmed) {
		return // no leader has confirmed it in time
	}
	if r != nil && !confirmed {
		w.fail("hooks: %s sends a goodbye before a leader has its kept notes", p.h.id)
	}
	given := map[shardmap.Shard]ack.Released{}
	if r != nil {
		for _, x := range r.Shards {
			given[x.Shard] = x
		}
	}
	m := p.table.Committed()
	for s := range m.Shards(p.h.id) {
		o := shardEpoch{s, m.OwnedSince(s)}
		x, ok := given[s]
		switch own := p.released[s] == o.epoch; {
		case own && (!ok || x.From != ""):
			w.fail("hooks: %s sends a goodbye without the release of shard %d by its app: %+v", p.h.id, s, x)
		case own:
		case ok && (p.everGot[o] || !p.mayGetNote(s, o.epoch)):
			w.fail("hooks: %s sends a goodbye and keeps shard %d, which was not released", p.h.id, s)
		case !ok && !p.everGot[o] && p.mayGetNote(s, o.epoch):
			w.fail("hooks: %s sends a goodbye and does not keep shard %d, which it got as released", p.h.id, s)
		}
	}
}

// kept returns the record of a release in place in a state, for comparisons.
func kept(s *ack.State, shard shardmap.Shard) string {
	k, ok := s.KeptRelease(shard)
	return fmt.Sprint(k, ok)
}
