package shardmap

// Move is the change of the owner of a shard. An empty id means that the shard is orphaned.
type Move struct {
	Shard    Shard
	From, To NodeID
}

// Diff returns the shards that have different owners in from and to, in ascending order. It ignores
// epochs and weights. A shard that is missing in one of the maps counts as orphaned there.
func Diff(from, to *Map) []Move {
	var moves []Move
	converted := from.translationTo(to.members)
	for s := range max(from.Len(), to.Len()) {
		a, b := from.ownerIndexOrNone(s), to.ownerIndexOrNone(s)
		// newIndex also returns noOwner for an owner that is not in to: this case is a move.
		if converted.newIndex(a) == b && (b != noOwner || a == noOwner) {
			continue
		}
		mv := Move{Shard: Shard(s)}
		if a != noOwner {
			mv.From = from.members[a].ID
		}
		if b != noOwner {
			mv.To = to.members[b].ID
		}
		moves = append(moves, mv)
	}
	return moves
}

// ownerIndexOrNone returns the owner index of shard s, or noOwner if m has no such shard.
func (m *Map) ownerIndexOrNone(s int) int16 {
	if s >= len(m.owners) {
		return noOwner
	}
	return m.owners[s]
}
