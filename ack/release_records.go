package ack

import (
	"cmp"
	"maps"
	"slices"

	"shardway/shardmap"
)

// releaseNotes contains the records of releases.
type releaseNotes struct {
	moved map[shardmap.Shard]releaseNote // releases with which shards moved to their present owners
	kept  map[shardmap.Shard]releaseNote // releases with which their owners restart in place
}

// releaseNote is the record of a release: of a shard that was released before its present
// owner got it (releaseNotes.moved), or by the previous process of its present owner, which
// restarts in place (releaseNotes.kept).
type releaseNote struct {
	// server is the disk of the present owner. Only that disk gets the note: it acknowledged
	// the map, or restarts.
	server string
	note   []byte

	// The following fields are zero if the shard moved.

	// boot is the boot that released the shard to restart in place.
	boot uint64
	// index is the index of the restart entry.
	index uint64
	// released means that the app of that boot released the shard. Otherwise that boot never
	// acquired it, and passes on the note that it received.
	released bool
}

// ReleaseNote returns the note of the release before the present ownership of the shard, and the
// server that may use it. ok is false if no release is recorded.
func (s *State) ReleaseNote(shard shardmap.Shard) (note []byte, server string, ok bool) {
	record, ok := s.releaseNotes.moved[shard]
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
	record, ok := s.releaseNotes.kept[shard]
	if !ok {
		return KeptRelease{}, false
	}
	return KeptRelease{Server: record.server, Boot: record.boot, Note: record.note, PassedOn: !record.released}, true
}

// recordMoves records the releases of the shards that move with the map being committed. All earlier
// records of moving shards are removed.
func (rn *releaseNotes) recordMoves(committed, proposed *shardmap.Map, entry CommitEntry) {
	moves := shardmap.Diff(committed, proposed)
	if len(moves) == 0 {
		return
	}
	newOwners := make(map[shardmap.Shard]shardmap.NodeID, len(moves))
	notes, keptNotes := maps.Clone(rn.moved), maps.Clone(rn.kept)
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
	limitNotes(notes, proposed)
	rn.moved, rn.kept = notes, keptNotes
}

// recordRestart records the releases of a node that restarts in place. index is the index of the
// entry. Records of earlier restarts of the node are removed.
func (rn *releaseNotes) recordRestart(committed *shardmap.Map, entry RestartEntry, index uint64) {
	keptNotes := maps.Clone(rn.kept)
	for shard := range committed.Shards(entry.Node) {
		delete(keptNotes, shard)
	}
	for _, release := range entry.Released {
		exists := int(release.Shard) < committed.Len()
		if !exists || committed.Owner(release.Shard) != entry.Node {
			continue
		}
		if committed.OwnedSince(release.Shard) > entry.Proposal {
			continue // the node got the shard after that proposal, so this is not its release
		}
		setKey(&keptNotes, release.Shard, releaseNote{
			server: entry.Server, note: release.Note,
			boot: entry.Boot, index: index, released: release.From == "",
		})
	}
	limitNotes(keptNotes, committed)
	rn.kept = keptNotes
}

// limitNotes bounds the notes, in the same way on every node. Notes of the oldest entries are
// removed first, because their shards were acquired long ago.
func limitNotes(notes map[shardmap.Shard]releaseNote, committed *shardmap.Map) {
	entryIndex := func(shard shardmap.Shard) uint64 {
		return max(notes[shard].index, uint64(committed.OwnedSince(shard)))
	}
	shards := slices.SortedFunc(maps.Keys(notes), func(a, b shardmap.Shard) int {
		return cmp.Or(cmp.Compare(entryIndex(b), entryIndex(a)), cmp.Compare(a, b)) // newest first
	})
	budget := NoteBudget{}
	for _, shard := range shards {
		if !budget.Add(notes[shard].note) {
			delete(notes, shard)
		}
	}
}

// releaseNotes writes the records in the order of the shards. Each shard is encoded as the gap to
// its predecessor, and each server as an index in a sorted list.
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

// releaseNotes reads the output of writer.releaseNotes for the shards of the committed map. ofRestarts
// reports whether they must be records of restarts; otherwise all must be records of moves.
func (r *reader) releaseNotes(committed *shardmap.Map, ofRestarts bool) map[shardmap.Shard]releaseNote {
	servers := r.servers()
	var notes map[shardmap.Shard]releaseNote
	usedServers := map[string]bool{}
	budget := NoteBudget{}
	next := uint64(0) // the lowest shard that may follow
	for range r.uint(0, uint64(committed.Len())) {
		shard, serverIndex := next+r.uint(0, MaxShards), r.uint(0, shardmap.MaxMembers)
		record := r.releaseNote()
		if r.err != nil {
			return nil
		}
		isOfRestart := record.boot != 0
		inRange := shard < uint64(committed.Len()) && serverIndex < uint64(len(servers))
		if isOfRestart != ofRestarts || !inRange || nodeOfServer(servers[serverIndex]) != committed.Owner(shardmap.Shard(shard)) {
			r.fail("release for another server than the owner")
			return nil
		}
		if !budget.Add(record.note) {
			r.fail("too many notes")
			return nil
		}
		record.server = servers[serverIndex]
		usedServers[record.server] = true
		setKey(&notes, shardmap.Shard(shard), record)
		next = shard + 1
	}
	if len(usedServers) != len(servers) {
		r.fail("unused server")
		return nil
	}
	return notes
}

// releaseNote reads one record without its shard and server.
func (r *reader) releaseNote() releaseNote {
	record := releaseNote{note: r.note(), boot: r.uint(0, maxUint)}
	if record.boot != 0 {
		record.index, record.released = r.uint(1, maxUint), r.bool()
	}
	return record
}
