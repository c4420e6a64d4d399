package ack

import (
	"cmp"
	"maps"
	"slices"

	"shardway/shardmap"
)

// releaseRecords contains a record for each shard whose app released it, so that the next owner of the
// shard receives the note of that release.
type releaseRecords struct {
	moved map[shardmap.Shard]releaseRecord // releases by the previous owners of shards that moved
	kept  map[shardmap.Shard]releaseRecord // releases by owners that restart in place and keep their shards
}

// releaseRecord records that the app of an owner has released a shard. In releaseRecords.moved, that
// owner is the previous one. In releaseRecords.kept, it is the previous process of the current owner.
type releaseRecord struct {
	// server is the Raft server id of the current owner, which contains its node id and its disk.
	// Only the process on this disk receives the note, because only this disk has acknowledged the map
	// or restarts in place. A process of the same node on a new disk does not receive it.
	server string
	note   []byte // the text of the app for the next owner

	// The following fields are zero if the shard moved.

	// boot is the boot number of the process that released the shard to restart in place.
	boot uint64
	// index is the index of the restart entry.
	index uint64
	// released is set if the app released the shard during that boot. Otherwise that process never
	// acquired the shard, and passes on the note that it received from the previous owner.
	released bool
}

// ReleaseNote returns the note with which the previous owner released the shard, and the Raft server
// id of the process that may use it. ok is false if no release is recorded.
func (s *State) ReleaseNote(shard shardmap.Shard) (note []byte, server string, ok bool) {
	record, ok := s.releaseRecords.moved[shard]
	return record.note, record.server, ok
}

// KeptRelease is a shard that its owner has released to restart in place.
type KeptRelease struct {
	// Server and Boot are the Raft server id and the boot number of the releasing process. Only the
	// process with the next boot number on the same disk may use the note.
	Server string
	Boot   uint64
	Note   []byte
	// PassedOn is set if the releasing process never served the shard. Note is then the note that
	// it had received from the previous owner.
	PassedOn bool
}

// KeptRelease returns the release of the shard in the last restart in place of its current owner.
// ok is false if there is none.
func (s *State) KeptRelease(shard shardmap.Shard) (KeptRelease, bool) {
	record, ok := s.releaseRecords.kept[shard]
	if !ok {
		return KeptRelease{}, false
	}
	return KeptRelease{Server: record.server, Boot: record.boot, Note: record.note, PassedOn: !record.released}, true
}

// recordMoves records the releases of the shards that move with the map being committed. All earlier
// records of moving shards are removed.
func (rn *releaseRecords) recordMoves(committed, proposed *shardmap.Map, entry CommitEntry) {
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
		setKey(&notes, release.Shard, releaseRecord{server: server, note: release.Note})
	}
	limitNotes(notes, proposed)
	rn.moved, rn.kept = notes, keptNotes
}

// recordRestart records the releases of a node that restarts in place. index is the index of the
// entry. Records of earlier restarts of the node are removed.
func (rn *releaseRecords) recordRestart(committed *shardmap.Map, entry RestartEntry, index uint64) {
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
		setKey(&keptNotes, release.Shard, releaseRecord{
			server: entry.Server, note: release.Note,
			boot: entry.Boot, index: index, released: release.From == "",
		})
	}
	limitNotes(keptNotes, committed)
	rn.kept = keptNotes
}

// limitNotes bounds the notes, in the same way on every node. Notes of the oldest entries are
// removed first, because their shards were acquired long ago.
func limitNotes(notes map[shardmap.Shard]releaseRecord, committed *shardmap.Map) {
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

// writeReleaseRecords writes the records in the order of the shards. Each shard is encoded as the gap to
// its predecessor, and each server as an index in a sorted list.
func (w *writer) writeReleaseRecords(notes map[shardmap.Shard]releaseRecord) {
	var servers []string
	for _, record := range notes {
		servers = append(servers, record.server)
	}
	slices.Sort(servers)
	servers = slices.Compact(servers)
	w.writeNames(servers)
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

// readReleaseRecords decodes the output of writer.writeReleaseRecords for the shards of the committed map. ofRestarts
// reports whether they must be records of restarts; otherwise all must be records of moves.
func (r *reader) readReleaseRecords(committed *shardmap.Map, ofRestarts bool) map[shardmap.Shard]releaseRecord {
	servers := r.readNames()
	var notes map[shardmap.Shard]releaseRecord
	usedServers := map[string]bool{}
	budget := NoteBudget{}
	next := uint64(0) // the lowest shard that may follow
	for range r.uint(0, uint64(committed.Len())) {
		shard, serverIndex := next+r.uint(0, MaxShards), r.uint(0, shardmap.MaxMembers)
		record := r.readReleaseRecord()
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

// readReleaseRecord reads one record without its shard and server.
func (r *reader) readReleaseRecord() releaseRecord {
	record := releaseRecord{note: r.readNote(), boot: r.uint(0, maxUint)}
	if record.boot != 0 {
		record.index, record.released = r.uint(1, maxUint), r.bool()
	}
	return record
}
