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
	// acquired it, and passes on the note that it received.
	released bool
}

// ReleaseNote returns the note of the release before the present ownership of the shard, and the
// server that may use it. ok is false if no release is recorded.
func (s *State) ReleaseNote(shard shardmap.Shard) (note []byte, server string, ok bool) {
	record, ok := s.releaseNotes[shard]
	return record.note, record.server, ok
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
	record, ok := s.keptNotes[shard]
	return KeptRelease{record.server, record.boot, record.note, ok && !record.released}, ok
}

// recordReleases records the releases of the shards that move with the map being committed.
// All earlier records of moving shards are removed.
func (s *State) recordReleases(entry CommitEntry) {
	moves := shardmap.Diff(s.committed, s.proposed)
	if len(moves) == 0 {
		return
	}
	newOwners := make(map[shardmap.Shard]shardmap.NodeID, len(moves))
	notes, keptNotes := maps.Clone(s.releaseNotes), maps.Clone(s.keptNotes)
	for _, move := range moves {
		delete(notes, move.Shard)
		delete(keptNotes, move.Shard)
		if move.From != "" {
			newOwners[move.Shard] = move.To
		}
	}
	servers := make(map[shardmap.NodeID]string, len(entry.Servers))
	for _, server := range entry.Servers {
		servers[nodeOfServer(server)] = server
	}
	for _, release := range entry.Released {
		server := servers[newOwners[release.Shard]]
		if server == "" {
			continue // it does not move, or its new owner is unknown
		}
		setKey(&notes, release.Shard, releaseNote{server: server, note: release.Note})
	}
	limitNotes(notes, s.proposed)
	s.releaseNotes, s.keptNotes = notes, keptNotes
}

// recordKeptReleases records the releases of a node that restarts in place. Records of earlier
// restarts of the node are removed.
func (s *State) recordKeptReleases(entry RestartEntry) {
	keptNotes := maps.Clone(s.keptNotes)
	for shard := range s.committed.Shards(entry.Node) {
		delete(keptNotes, shard)
	}
	for _, release := range entry.Released {
		// A shard that the node got after that proposal is not released.
		if int(release.Shard) < s.committed.Len() && s.committed.Owner(release.Shard) == entry.Node && s.committed.OwnedSince(release.Shard) <= entry.Proposal {
			setKey(&keptNotes, release.Shard, releaseNote{server: entry.Server, note: release.Note, boot: entry.Boot, index: s.index, released: release.From == ""})
		}
	}
	limitNotes(keptNotes, s.committed)
	s.keptNotes = keptNotes
}

// limitNotes bounds the notes, in the same way on every node. Notes of the oldest entries are
// removed first, because their shards were acquired long ago.
func limitNotes(notes map[shardmap.Shard]releaseNote, committed *shardmap.Map) {
	since := func(s shardmap.Shard) uint64 { return max(notes[s].index, uint64(committed.OwnedSince(s))) }
	shards := slices.Collect(maps.Keys(notes))
	slices.SortFunc(shards, func(a, b shardmap.Shard) int {
		return cmp.Or(cmp.Compare(since(b), since(a)), cmp.Compare(a, b))
	})
	budget := NoteBudget{}
	for _, shard := range shards {
		if !budget.Add(notes[shard].note) {
			delete(notes, shard)
		}
	}
}

// releaseNotes writes the records in the order of the shards, each as the difference to the
// one before.
func (w *writer) releaseNotes(notes map[shardmap.Shard]releaseNote) {
	var servers []string
	for _, record := range notes {
		servers = append(servers, record.server)
	}
	slices.Sort(servers)
	servers = slices.Compact(servers)
	w.servers(servers)
	w.uint(uint64(len(notes)))
	next := shardmap.Shard(0)
	for _, shard := range slices.Sorted(maps.Keys(notes)) {
		record := notes[shard]
		serverIndex, _ := slices.BinarySearch(servers, record.server)
		w.uint(uint64(shard - next))
		w.uint(uint64(serverIndex))
		w.bytes(record.note)
		w.uint(record.boot)
		if record.boot != 0 {
			w.uint(record.index)
			w.bool(record.released)
		}
		next = shard + 1
	}
}

// releaseNotes reads the output of writer.releaseNotes for the shards of the committed map. kept
// reports whether they must be records of restarts.
func (r *reader) releaseNotes(committed *shardmap.Map, kept bool) map[shardmap.Shard]releaseNote {
	servers := r.servers()
	var notes map[shardmap.Shard]releaseNote
	used := map[string]bool{}
	next, budget := uint64(0), NoteBudget{}
	for range r.uint(0, uint64(committed.Len())) {
		s, serverIndex := next+r.uint(0, MaxShards), r.uint(0, shardmap.MaxMembers)
		record := releaseNote{note: r.note(), boot: r.uint(0, maxUint)}
		if record.boot != 0 {
			record.index, record.released = r.uint(1, maxUint), r.bool()
		}
		switch {
		case r.err != nil:
			return nil
		case kept != (record.boot != 0) || s >= uint64(committed.Len()) || serverIndex >= uint64(len(servers)) || nodeOfServer(servers[serverIndex]) != committed.Owner(shardmap.Shard(s)):
			r.fail("release for another server than the owner")
			return nil
		case !budget.Add(record.note):
			r.fail("too many notes")
			return nil
		}
		record.server, next = servers[serverIndex], s+1
		setKey(&notes, shardmap.Shard(s), record)
		used[record.server] = true
	}
	if len(used) != len(servers) {
		r.fail("unused server")
		return nil
	}
	return notes
}
