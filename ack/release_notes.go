package ack

import (
	"cmp"
	"maps"
	"slices"

	"shardway/shardmap"
)

// releaseNote is the record of a release: of a shard that was released before its present
// owner got it (State.releaseNotes), or by the previous process of its present owner, which
// restarts in place (State.keptNotes).
type releaseNote struct {
	// server is the disk of the present owner. Only that disk gets the note: it acknowledged
	// the map, or restarts.
	server string
	note   []byte
	// boot is the boot that released the shard to restart in place; zero means that the shard
	// moved.
	boot uint64
	// index is the index of the restart entry; zero if boot is zero.
	index uint64
	// released means that the app of that boot released the shard. Otherwise that boot never
	// acquired it, and passes on the note that it got.
	released bool
}

// ReleaseNote returns the note of the release before the present ownership of the shard, and the
// server that may use it. ok is false if no release is recorded.
func (s *State) ReleaseNote(shard shardmap.Shard) (note []byte, server string, ok bool) {
	l, ok := s.releaseNotes[shard]
	return l.note, l.server, ok
}

// KeptRelease is a shard that its owner has released to restart in place.
type KeptRelease struct {
	// Server and Boot are those of the releasing process. Only the next boot on that disk may
	// use the note.
	Server string
	Boot   uint64
	Note   []byte
	// PassedOn means that the process never served the shard, and passes on the note that it had
	// received from the owner before.
	PassedOn bool
}

// KeptRelease returns the release of the shard in the last restart in place of its present owner.
// ok is false if there is none.
func (s *State) KeptRelease(shard shardmap.Shard) (KeptRelease, bool) {
	l, ok := s.keptNotes[shard]
	return KeptRelease{l.server, l.boot, l.note, ok && !l.released}, ok
}

// recordReleases records the releases of the shards that move with the map being committed.
// All earlier records of moving shards are removed.
func (s *State) recordReleases(c CommitEntry) {
	moves := shardmap.Diff(s.committed, s.proposed)
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
	servers := make(map[shardmap.NodeID]string, len(c.Servers))
	for _, server := range c.Servers {
		servers[nodeOfServer(server)] = server
	}
	for _, r := range c.Released {
		server := servers[to[r.Shard]]
		if server == "" {
			continue // it does not move, or its new owner is unknown
		}
		setKey(&next, r.Shard, releaseNote{server: server, note: r.Note})
	}
	limitNotes(next, s.proposed)
	s.releaseNotes, s.keptNotes = next, kept
}

// recordKeptReleases records the releases of a node that restarts in place. Records of earlier
// restarts of the node are removed.
func (s *State) recordKeptReleases(c RestartEntry) {
	next := maps.Clone(s.keptNotes)
	for shard := range s.committed.Shards(c.Node) {
		delete(next, shard)
	}
	for _, r := range c.Released {
		// A shard that the node got after that proposal is not released.
		if int(r.Shard) < s.committed.Len() && s.committed.Owner(r.Shard) == c.Node && s.committed.OwnedSince(r.Shard) <= c.Proposal {
			setKey(&next, r.Shard, releaseNote{server: c.Server, note: r.Note, boot: c.Boot, index: s.index, released: r.From == ""})
		}
	}
	limitNotes(next, s.committed)
	s.keptNotes = next
}

// limitNotes bounds the notes, in the same way on every node. Notes of the oldest entries are
// removed first, because their shards were acquired long ago.
func limitNotes(all map[shardmap.Shard]releaseNote, m *shardmap.Map) {
	since := func(s shardmap.Shard) uint64 { return max(all[s].index, uint64(m.OwnedSince(s))) }
	shards := slices.Collect(maps.Keys(all))
	slices.SortFunc(shards, func(a, b shardmap.Shard) int {
		return cmp.Or(cmp.Compare(since(b), since(a)), cmp.Compare(a, b))
	})
	total := NoteBudget{}
	for _, shard := range shards {
		if !total.Add(all[shard].note) {
			delete(all, shard)
		}
	}
}

// releaseNotes writes the records in the order of the shards, each as the difference to the
// one before.
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

// releaseNotes reads the output of writer.releaseNotes for the shards of m. kept says whether
// they must be records of restarts.
func (r *reader) releaseNotes(m *shardmap.Map, kept bool) map[shardmap.Shard]releaseNote {
	servers := r.servers()
	var all map[shardmap.Shard]releaseNote
	used := map[string]bool{}
	next, total := uint64(0), NoteBudget{}
	for range r.uint(0, uint64(m.Len())) {
		s, at := next+r.uint(0, MaxShards), r.uint(0, shardmap.MaxMembers)
		l := releaseNote{note: r.note(), boot: r.uint(0, maxUint)}
		if l.boot != 0 {
			l.index, l.released = r.uint(1, maxUint), r.bool()
		}
		switch {
		case r.err != nil:
			return nil
		case kept != (l.boot != 0) || s >= uint64(m.Len()) || at >= uint64(len(servers)) || nodeOfServer(servers[at]) != m.Owner(shardmap.Shard(s)):
			r.fail("release for another server than the owner")
			return nil
		case !total.Add(l.note):
			r.fail("too many notes")
			return nil
		}
		l.server, next = servers[at], s+1
		setKey(&all, shardmap.Shard(s), l)
		used[l.server] = true
	}
	if len(used) != len(servers) {
		r.fail("unused server")
		return nil
	}
	return all
}
