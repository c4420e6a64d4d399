package ack

import (
	"time"

	"shardway/shardmap"
)

// delivery is what the last acknowledgement, or a goodbye, gives up shards with, on its way
// to the leader.
type delivery struct {
	releases *Releases // nil: nothing, or nobody has taken it in time
	digest   [32]byte
	taken    bool
	again    time.Duration // when it is sent next
	by       time.Duration // until when
	term     uint64        // of the leader that has it, or was asked to take it again
}

// delivers reports that it is on its way.
func (d *delivery) delivers() bool { return d.releases != nil && !d.taken }

// untouched returns the note that came with a shard of the given ownership epoch, and true
// if this process knows that what the note points at is as it was released: it was, for
// this very disk, and neither this process has served the shard under that epoch nor one
// before it may have. From is whose release it is.
func (k *hooks) untouched(s shardmap.Shard, h *holding, epoch shardmap.Epoch) (note []byte, from shardmap.NodeID, ok bool) {
	state := k.saw.state
	if h.served && h.epoch == epoch {
		return nil, "", false // its app may have changed it
	}
	if l, ok := state.kept[s]; ok && l.server == k.server && k.boot == l.boot+1 { // no process was between
		if l.own {
			return l.note, k.self, true
		}
		return l.note, state.OwnerBefore(s), true
	}
	if l, ok := state.left[s]; ok && l.server == k.server && k.leased && epoch > k.since {
		return l.note, state.OwnerBefore(s), true
	}
	return nil, "", false
}

// giveUp puts together what the acknowledgement of e gives up shards with: what the app
// has released under the ownership epoch that ends, also for an earlier proposal, and what
// it has never acquired, as it came. A node that is to be back gives up all that it has.
func (k *hooks) giveUp(now time.Duration, e shardmap.Epoch) {
	k.delivery = delivery{}
	r := &Releases{Level: k.saw.state.Level(), Node: k.self, Server: k.server, Boot: k.boot, Proposal: e}
	total := room{}
	for i := range k.shards {
		s := shardmap.Shard(i)
		x, ok := k.gives(s, &k.shards[s])
		switch {
		case !ok:
		case total.takes(x.Note):
			r.Shards = append(r.Shards, x)
		default:
			r.Over = append(r.Over, s)
		}
	}
	if len(r.Shards)+len(r.Over) == 0 {
		return
	}
	by := max(now, k.releaseBy+k.deliverTime(), k.partBy)
	if k.saw.back { // also of what it acknowledges to a later leader when it has said goodbye
		by = max(by, k.partBy+k.deliverTime(), now+k.deliverTime())
	}
	k.delivery = delivery{releases: r, digest: r.Digest(), again: now, by: by}
}

// gives returns with what a shard is given up, and false if it is not, or nobody knows.
func (k *hooks) gives(s shardmap.Shard, h *holding) (Released, bool) {
	st := k.standing(s)
	if !st.mine || k.saw.state.Last().Owner(s) == k.self && !k.saw.back {
		return Released{}, false
	}
	if h.released && h.epoch == st.epoch {
		return Released{Shard: s, Note: h.note}, true
	}
	note, from, ok := k.untouched(s, h, st.epoch)
	if from == k.self {
		from = "" // that of its last process is its own
	}
	return Released{Shard: s, From: from, Note: note}, ok
}

// deliver sends what is on its way. It returns true if nobody has taken it in time: then
// the shards move unreleased, and the acknowledgement says so.
func (k *hooks) deliver(now time.Duration) (changed bool) {
	switch {
	case !k.delivers():
	case now >= k.by:
		k.delivery = delivery{}
		return true
	case now >= k.again:
		k.again = now + deliverAgain
		k.o.Deliver(*k.releases)
	}
	return false
}

// told takes from an answer whether the leader has it. A later leader asks for every
// acknowledgement anew, but for no goodbye: that one gets it again.
func (k *hooks) told(now time.Duration, ans Answer, parted bool) {
	k.absences = max(k.absences, ans.Absences)
	if k.hope.answered(now, ans.Term) {
		k.stale = true
	}
	switch {
	case k.releases == nil || ans.Term < k.term:
	case ans.Taken && k.releases.Proposal == ans.Epoch:
		k.taken, k.term = true, ans.Term
	case parted && !ans.Taken && ans.Term > k.term:
		k.taken, k.term, k.again, k.by = false, ans.Term, now, now+k.deliverTime()
	}
}
