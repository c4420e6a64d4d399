package ack

import (
	"cmp"
	"maps"
	"slices"

	"shardway/shardmap"
)

// left is what the state knows of a shard that was released before its present owner got
// it (State.left), or by its present owner's last process, which restarts in place
// (State.kept).
type releaseNote struct {
	// server is the disk of the present owner that is told, and no other: the one that
	// acknowledged the map, or that restarts.
	server string
	note   []byte
	// boot is the one that has released the shard in place; zero: it came with the map.
	boot uint64
	// at is the index of the entry that told of that; zero with boot.
	index uint64
	// own: that boot has released the shard itself. Otherwise it has passed it on as it
	// got it, from whom the owner follows.
	released bool
}

// Released returns what the release before the present ownership of the shard left, and
// the server that it is for; false: nobody knows that there was one.
func (s *State) Released(shard shardmap.Shard) (note []byte, server string, ok bool) {
	l, ok := s.releaseNotes[shard]
	return l.note, l.server, ok
}

// Kept is a shard that its owner has released to restart in place.
type Kept struct {
	// Server and Boot are those of the process that has: the next boot on that disk is told.
	Server string
	Boot   uint64
	Note   []byte
	// AsGot: it has never served the shard, and passes it on as it got it.
	PassedOn bool
}

// Kept returns with what the present owner of the shard has last restarted in place;
// false: it has not, or not with this shard.
func (s *State) Kept(shard shardmap.Shard) (Kept, bool) {
	l, ok := s.keptNotes[shard]
	return Kept{l.server, l.boot, l.note, ok && !l.released}, ok
}

// leave notes with which releases shards pass on to the owners in the map that is being
// committed. What was known of earlier releases of theirs ends with that, however they move.
func (s *State) recordReleases(c commit) {
	moves := shardmap.Diff(s.committed, s.last)
	if len(moves) == 0 {
		return
	}
	to := make(map[shardmap.Shard]shardmap.NodeID, len(moves))
	next, kept := maps.Clone(s.releaseNotes), maps.Clone(s.keptNotes)
	for _, m := range moves {
		delete(next, m.Shard)
		delete(kept, m.Shard)
		if m.From != "" {
			to[m.Shard] = m.To
		}
	}
	servers := make(map[shardmap.NodeID]string, len(c.servers))
	for _, server := range c.servers {
		servers[nodeOf(server)] = server
	}
	for _, r := range c.released {
		server := servers[to[r.Shard]]
		if server == "" {
			continue // it does not move, or nobody knows where to
		}
		setKey(&next, r.Shard, releaseNote{server: server, note: r.Note})
	}
	boundNotes(next, s.last)
	s.releaseNotes, s.keptNotes = next, kept
}

// keep notes with which releases the shards of a node wait for its next process. What an
// earlier one has kept ends with that.
func (s *State) recordKept(c restartEntry) {
	next := maps.Clone(s.keptNotes)
	for shard := range s.committed.Shards(c.node) {
		delete(next, shard)
	}
	for _, r := range c.released {
		// What the node has got since then it has not released.
		if int(r.Shard) < s.committed.Len() && s.committed.Owner(r.Shard) == c.node && s.committed.OwnedSince(r.Shard) <= c.proposal {
			setKey(&next, r.Shard, releaseNote{server: c.server, note: r.Note, boot: c.boot, index: s.index, released: r.From == ""})
		}
	}
	boundNotes(next, s.committed)
	s.keptNotes = next
}

// forgetNotes keeps the notes bounded, the same way on every node: those of the oldest
// entries go first, for their shards were acquired long ago.
func boundNotes(all map[shardmap.Shard]releaseNote, m *shardmap.Map) {
	since := func(s shardmap.Shard) uint64 { return max(all[s].index, uint64(m.OwnedSince(s))) }
	shards := slices.Collect(maps.Keys(all))
	slices.SortFunc(shards, func(a, b shardmap.Shard) int {
		return cmp.Or(cmp.Compare(since(b), since(a)), cmp.Compare(a, b))
	})
	total := noteBudget{}
	for _, shard := range shards {
		if !total.add(all[shard].note) {
			delete(all, shard)
		}
	}
}

// left writes what is known of releases, in the order of the shards, each by its distance
// from the one before.
func (w *writer) releaseNotes(all map[shardmap.Shard]releaseNote) {
	var servers []string
	for _, l := range all {
		servers = append(servers, l.server)
	}
	slices.Sort(servers)
	servers = slices.Compact(servers)
	w.servers(servers)
	w.uint(uint64(len(all)))
	next := shardmap.Shard(0)
	for _, s := range slices.Sorted(maps.Keys(all)) {
		l := all[s]
		at, _ := slices.BinarySearch(servers, l.server)
		w.uint(uint64(s - next))
		w.uint(uint64(at))
		w.bytes(l.note)
		w.uint(l.boot)
		if l.boot != 0 {
			w.uint(l.index)
			w.bool(l.released)
		}
		next = s + 1
	}
}

// left reads what the writer wrote, of shards that go by m: kept in place, or not.
func (r *reader) releaseNotes(m *shardmap.Map, kept bool) map[shardmap.Shard]releaseNote {
	servers := r.servers()
	var all map[shardmap.Shard]releaseNote
	used := map[string]bool{}
	next, total := uint64(0), noteBudget{}
	for range r.uint(0, uint64(m.Len())) {
		s, at := next+r.uint(0, MaxShards), r.uint(0, shardmap.MaxMembers)
		l := releaseNote{note: r.note(), boot: r.uint(0, maxUint)}
		if l.boot != 0 {
			l.index, l.released = r.uint(1, maxUint), r.bool()
		}
		switch {
		case r.err != nil:
			return nil
		case kept != (l.boot != 0) || s >= uint64(m.Len()) || at >= uint64(len(servers)) || nodeOf(servers[at]) != m.Owner(shardmap.Shard(s)):
			r.fail("a release for nobody")
			return nil
		case !total.add(l.note):
			r.fail("too many notes")
			return nil
		}
		l.server, next = servers[at], s+1
		setKey(&all, shardmap.Shard(s), l)
		used[l.server] = true
	}
	if len(used) != len(servers) {
		r.fail("a server that gets nothing")
		return nil
	}
	return all
}
