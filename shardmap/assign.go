package shardmap

import "slices"

// Assign derives from prev the map in which members own the shards, as far as the
// policy p allows. It is pure: the same prev, members, in whatever order, and policy
// give the same map, and once more from that map, the same again.
//
// Every count differs from the member's weighted quota by less than one shard,
// and the number of shards that change hands is the least that allows: the
// orphans plus what members own above their target, with the targets rounded so
// that this is smallest. A member of prev that is not in members loses its
// shards; with no members at all every shard is orphaned.
//
// A policy changes what is even. What is pinned to a node is placed there, then what
// is pinned to a zone is spread over that zone, then the rest over all: each time as
// even as what has its place already allows, with the fewest moves. A cordoned member
// keeps what it has, but not more than its quota rounded up, and the others share what
// it leaves. If all are cordoned, or moves are paused, who has a shard keeps it. What
// absent members have is no part of any of this; if all are absent, what nobody has
// converted orphaned. Nor is what members have that are being emptied; of that, what is idle
// is placed like what nobody has.
//
// Policy.Staged defers moves: the shards of these owners stay where they are, but for
// those in Policy.Idle. The counts differ from the quotas by what is deferred.
//
// The result keeps prev's epoch, and its ownership epochs for shards that stay;
// shards that move have ownership epoch 0 until Settle. What Check complains
// about is bent into shape: weights go to the nearest bound, of two members with
// one id the heavier counts, ids that do not fit are left out, and so are the
// last ones by id beyond MaxMembers.
//
// Among shards that may as well move, those move that go back to whom they came from
// last (Policy.Before): a node that is stopped and started again has what it had.
//
// If that would place a shard on a member that is barred from it (Policy.Barred), the shards
// are placed anew without such moves: the spread is as even as single moves can make it, and
// only a shard that no other member may get goes to a barred member.
//
// It costs about one multiplication for each shard that moves and each member
// that gains.
func Assign(prev *Map, members []Member, p Policy) *Map {
	m := &Map{
		epoch:   prev.epoch,
		members: normalize(p.eligible(members)),
		owners:  make([]int16, prev.Len()),
		since:   make([]Epoch, prev.Len()),
	}
	converted := prev.translationTo(m.members)
	for s, o := range prev.owners {
		m.owners[s] = converted.convert(o)
	}
	if len(m.members) > 0 {
		kept := slices.Clone(m.owners)
		if m.place(p, prev.since, nil); m.violatesBarred(kept, p.Barred) {
			m.owners = kept
			m.place(p, prev.since, m.barredSets(p.Barred))
		}
	}
	if len(p.Staged)+len(p.Kept) > 0 {
		m.deferMoves(prev, p)
		converted = prev.translationTo(m.members)
	}
	m.recount()
	for s, o := range prev.owners {
		if m.owners[s] != noOwner && m.owners[s] == converted.convert(o) {
			m.since[s] = prev.since[s]
		}
	}
	return m
}
