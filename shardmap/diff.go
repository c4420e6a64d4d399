package shardmap

// Move is a shard that changes hands. An empty id stands for no owner.
type Move struct {
	Shard    Shard
	From, To NodeID
}

// Diff returns the shards whose owner in to is not the one in from, ascending by
// shard; epochs and weights do not count. A shard that one of the maps does not
// have is orphaned there.
func Diff(from, to *Map) []Move {
	var moves []Move
	was := from.translationTo(to.members)
	for s := range max(from.Len(), to.Len()) {
		a, b := from.ownerIndexOrNone(s), to.ownerIndexOrNone(s)
		// A translated none may be an owner that is gone, hence the second look.
		if was.convert(a) == b && (b != noOwner || a == noOwner) {
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

func (m *Map) ownerIndexOrNone(s int) int16 {
	if s >= len(m.owners) {
		return noOwner
	}
	return m.owners[s]
}
